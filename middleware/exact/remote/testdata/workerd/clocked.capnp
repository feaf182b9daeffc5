# The owner by the clock of a test.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "owner", worker = .owner), (name = "counts", disk = (writable = true))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "owner")],
);

const owner :Workerd.Worker = (
  modules = [
    (name = "clocked.js", esModule = embed "clocked.js"),
    (name = "owner.js", esModule = embed "../../durable/owner.js"),
    (name = "account.js", esModule = embed "../../durable/account.js"),
    (name = "back.js", esModule = embed "../../durable/back.js"),
    (name = "limits.js", esModule = embed "../../durable/limits.js"),
    (name = "store.js", esModule = embed "../../durable/store.js"),
  ],
  compatibilityDate = "2026-01-01",
  durableObjectNamespaces = [(className = "Clocked", uniqueKey = "tally", enableSql = true)],
  durableObjectStorage = (localDisk = "counts"),
  bindings = [
    (name = "TALLIES", durableObjectNamespace = "Clocked"),
    (name = "SECRETS", fromEnvironment = "SECRETS"),
  ],
);
