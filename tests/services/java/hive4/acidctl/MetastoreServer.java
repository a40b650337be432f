package acidctl;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.function.BooleanSupplier;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.security.HadoopThriftAuthBridge;
import org.apache.thrift.server.TServer;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * A port at which this JVM answers as Hive's metastore, over the database its own Hive uses. Does what
 * `HiveMetaStore.startMetaStore` does, but holds the server and keeps HTTP, too, to loopback.
 */
public final class MetastoreServer implements AutoCloseable {
    private final Thread thread;
    private final Stop stop;
    private volatile Throwable failure;

    private interface Stop {
        void run() throws Exception;
    }

    private MetastoreServer(int port, Map<String, String> settings) throws Exception {
        Configuration conf = MetastoreConf.newMetastoreConf();
        settings.forEach(conf::set);
        field(HiveMetaStore.class, "isMetaStoreRemote").setBoolean(null, true);
        Object hive;
        if ("http".equals(MetastoreConf.getVar(conf, MetastoreConf.ConfVars.THRIFT_TRANSPORT_MODE))) {
            Method prepare = method(HiveMetaStore.class, "startHttpMetastore", int.class, Configuration.class);
            hive = call(prepare, null, port, conf);
            Server jetty = (Server) field(hive.getClass(), "val$server").get(hive);
            ((ServerConnector) jetty.getConnectors()[0]).setHost("127.0.0.1");
            thread = serve(port, hive);
            awaitStart(() -> jetty.isStarted());
            stop = jetty::stop;
        } else {
            Method prepare = method(HiveMetaStore.class, "startBinaryMetastore", int.class,
                    HadoopThriftAuthBridge.class, Configuration.class);
            hive = call(prepare, null, port, HadoopThriftAuthBridge.getBridge(), conf);
            TServer thrift = (TServer) field(hive.getClass(), "val$tServer").get(hive);
            Connections connections = new Connections(thrift);
            thread = serve(port, hive);
            awaitStart(() -> thrift.isServing());
            stop = () -> {
                thrift.stop();
                connections.cut();
            };
        }
    }

    /** Answers at `port` with Hive's configuration, changed by `settings`, once this returns. */
    public static MetastoreServer start(int port, Map<String, String> settings) throws Exception {
        return new MetastoreServer(port, settings);
    }

    /** Gives the port back and cuts every connection, as the end of the process would. */
    @Override
    public void close() throws Exception {
        stop.run();
        thread.join(30_000);
        if (thread.isAlive()) {
            throw new IllegalStateException("the metastore did not stop");
        }
    }

    private Thread serve(int port, Object hive) throws ReflectiveOperationException {
        Method start = method(hive.getClass(), "start");
        Thread serving = new Thread(() -> {
            try {
                call(start, hive);
            } catch (Throwable thrown) {
                failure = thrown;
            }
        }, "metastore-" + port);
        serving.setDaemon(true);
        serving.start();
        return serving;
    }

    private void awaitStart(BooleanSupplier started) throws InterruptedException {
        while (!started.getAsBoolean()) {
            if (failure != null) {
                throw new IllegalStateException("the metastore did not start: " + failure, failure);
            }
            Thread.sleep(10);
        }
    }

    private static Field field(Class<?> type, String name) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private static Method method(Class<?> type, String name, Class<?>... parameters)
            throws ReflectiveOperationException {
        Method method = type.getDeclaredMethod(name, parameters);
        method.setAccessible(true);
        return method;
    }

    private static Object call(Method method, Object object, Object... arguments) throws Exception {
        try {
            return method.invoke(object, arguments);
        } catch (InvocationTargetException e) {
            throw new IllegalStateException(String.valueOf(e.getCause()), e.getCause());
        }
    }
}
