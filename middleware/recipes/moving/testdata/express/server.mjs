import express from "express";
import { rateLimit } from "express-rate-limit";

const app = express();
app.set("trust proxy", 1);
app.use(rateLimit({ windowMs: 60_000, limit: 5 }));
app.post("/{*path}", (_, res) => res.send("Thank you."));

const server = app.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit()); // with the test
