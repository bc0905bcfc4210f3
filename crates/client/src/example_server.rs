# use std::sync::Arc;
# use xdfs_server::{Config, DiskMode, Export, Policy, Server, ServerLimits, TransportOptions};
# let store = Arc::new(xdfs_xio::store::MemoryStore::new(1 << 20));
# let server = Server::bind(Config {
#     listen: "127.0.0.1:0".parse::<std::net::SocketAddr>()?.into(),
#     transport: TransportOptions::default(),
#     exports: vec![Export { name: "export".into(), store: store.clone(), writable: true }],
#     policy: Policy::default(),
#     limits: ServerLimits::default(),
#     disk: DiskMode::default(),
#     log: Arc::new(|_| {}),
# })?;
# let (address, handle) = (server.address().clone(), server.handle());
# std::thread::spawn(move || server.run());
# (address, store, handle)
