package acidctl;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore.HMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TUGIBasedProcessor;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.security.TUGIContainingTransport;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.server.ServerContext;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/**
 * A port at which this JVM answers as Hive's metastore, over the database its own Hive uses. Put together as
 * `HiveMetaStore.startMetaStore` does without TLS and SASL, which in this release listens at every address.
 */
public final class MetastoreServer implements AutoCloseable {
    private final Thread thread;
    private final TThreadPoolServer server;
    private final Connections connections;

    private MetastoreServer(int port, Map<String, String> settings) throws Exception {
        Configuration conf = MetastoreConf.newMetastoreConf();
        settings.forEach(conf::set);
        HMSHandler handler = new HMSHandler("metastore-" + port, conf, false);
        InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        server = new TThreadPoolServer(new TThreadPoolServer.Args(new TServerSocket(address))
                .processor(new TUGIBasedProcessor<>(RetryingHMSHandler.getProxy(conf, handler, false)))
                .transportFactory(new TUGIContainingTransport.Factory())
                .protocolFactory(new TBinaryProtocol.Factory()));
        connections = new Connections(server) {
            @Override
            public void deleteContext(ServerContext context, TProtocol input, TProtocol output) {
                super.deleteContext(context, input, output);
                handler.shutdown();
            }
        };
        thread = new Thread(server::serve, "metastore-" + port);
        thread.setDaemon(true);
        thread.start();
    }

    /** Answers at `port` with Hive's configuration, changed by `settings`, once this returns. */
    public static MetastoreServer start(int port, Map<String, String> settings) throws Exception {
        return new MetastoreServer(port, settings);
    }

    /** Gives the port back and cuts every connection, as the end of the process would. */
    @Override
    public void close() throws Exception {
        server.stop();
        connections.cut();
        thread.join(30_000);
        if (thread.isAlive()) {
            throw new IllegalStateException("the metastore did not stop");
        }
    }
}
