package acidctl;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.security.HadoopThriftAuthBridge;
import org.apache.thrift.server.TServer;

/** A port at which this JVM answers as Hive's metastore, over the database its own Hive uses. */
public final class MetastoreServer implements AutoCloseable {
    private final Thread thread;
    private final Object server;
    private final Connections connections;
    private volatile Throwable failure;

    private MetastoreServer(int port, Map<String, String> settings) throws Exception {
        Configuration conf = MetastoreConf.newMetastoreConf();
        settings.forEach(conf::set);
        Object before = current();
        thread = new Thread(() -> {
            try {
                HiveMetaStore.startMetaStore(port, HadoopThriftAuthBridge.getBridge(), conf);
            } catch (Throwable thrown) {
                failure = thrown;
            }
        }, "metastore-" + port);
        thread.setDaemon(true);
        thread.start();
        while (current() == before || !running(current())) {
            if (failure != null || !thread.isAlive()) {
                throw new IllegalStateException("the metastore did not start: " + failure, failure);
            }
            Thread.sleep(10);
        }
        server = current();
        if (has(server, "val$tServer")) {
            connections = new Connections((TServer) captured(server, "val$tServer"));
        } else {
            connections = null;
        }
    }

    /** Answers at `port` with Hive's configuration, changed by `settings`, once this returns. */
    public static synchronized MetastoreServer start(int port, Map<String, String> settings) throws Exception {
        return new MetastoreServer(port, settings);
    }

    /** Gives the port back and cuts every connection, as the end of the process would. */
    @Override
    public void close() throws Exception {
        if (connections != null) {
            ((TServer) captured(server, "val$tServer")).stop();
            connections.cut();
        } else {
            ((org.eclipse.jetty.server.Server) captured(server, "val$server")).stop();
        }
        thread.join(30_000);
        if (thread.isAlive()) {
            throw new IllegalStateException("the metastore did not stop");
        }
    }

    /** What `startMetaStore` started last; Hive keeps it to itself, together with the server in it. */
    private static Object current() throws ReflectiveOperationException {
        Field field = HiveMetaStore.class.getDeclaredField("thriftServer");
        field.setAccessible(true);
        return field.get(null);
    }

    private static boolean running(Object server) throws ReflectiveOperationException {
        Method method = server.getClass().getDeclaredMethod("isRunning");
        method.setAccessible(true);
        return (boolean) method.invoke(server);
    }

    private static boolean has(Object server, String name) {
        for (Field field : server.getClass().getDeclaredFields()) {
            if (field.getName().equals(name)) {
                return true;
            }
        }
        return false;
    }

    private static Object captured(Object server, String name) throws ReflectiveOperationException {
        Field field = server.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(server);
    }
}
