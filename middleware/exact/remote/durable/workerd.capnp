# The owner on a machine of one's own, in workerd: SECRETS are in the environment, and the
# counts in the folder that is told it.
#
#   workerd serve workerd.capnp --directory-path counts=/var/lib/tallystick
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "owner", worker = .owner),
    (name = "counts", disk = (writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:9000", http = (), service = "owner")],
);

const owner :Workerd.Worker = (
  modules = [
    (name = "owner.js", esModule = embed "owner.js"),
    (name = "account.js", esModule = embed "account.js"),
    (name = "back.js", esModule = embed "back.js"),
    (name = "limits.js", esModule = embed "limits.js"),
    (name = "store.js", esModule = embed "store.js"),
  ],
  compatibilityDate = "2026-01-01",
  durableObjectNamespaces = [(className = "Tally", uniqueKey = "tally", enableSql = true)],
  durableObjectStorage = (localDisk = "counts"),
  bindings = [
    (name = "TALLIES", durableObjectNamespace = "Tally"),
    (name = "SECRETS", fromEnvironment = "SECRETS"),
  ],
);
