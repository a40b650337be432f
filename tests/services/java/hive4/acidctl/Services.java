package acidctl;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.MetastoreTaskThread;
import org.apache.hadoop.hive.metastore.api.SeedTableWriteIdsRequest;
import org.apache.hadoop.hive.metastore.api.SeedTxnIdRequest;
import org.apache.hadoop.hive.metastore.api.ShowCompactRequest;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.hadoop.hive.metastore.txn.service.AcidHouseKeeperService;
import org.apache.hadoop.hive.metastore.txn.service.AcidTxnCleanerService;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.CompactorThread;
import org.apache.hadoop.hive.ql.txn.compactor.Initiator;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/** What runs beside the sessions of a warehouse: schema set-up, compaction worker, cleaner. */
public final class Services {
    private Services() {}

    /** Makes an empty Derby database of the metastore at `database` from Hive's own script. */
    public static void createMetastore(String database, String script) throws Exception {
        Class.forName("org.apache.derby.jdbc.EmbeddedDriver");
        try (Connection connection = DriverManager.getConnection("jdbc:derby:" + database + ";create=true");
                Statement statement = connection.createStatement()) {
            for (String sql : statements(Paths.get(script))) {
                statement.execute(sql);
            }
        }
        try {
            // Without deregister=false the driver would be gone for the rest of this JVM.
            DriverManager.getConnection("jdbc:derby:" + database + ";shutdown=true;deregister=false", new Properties());
        } catch (SQLException expected) {
            if (!"08006".equals(expected.getSQLState())) {
                throw expected;
            }
        }
    }

    private static List<String> statements(Path script) throws Exception {
        List<String> found = new ArrayList<>();
        StringBuilder current = new StringBuilder();
        for (String line : Files.readAllLines(script)) {
            if (line.trim().startsWith("--") || line.trim().isEmpty()) {
                continue;
            }
            current.append(line).append('\n');
            if (line.trim().endsWith(";")) {
                String sql = current.toString().trim();
                found.add(sql.substring(0, sql.length() - 1));
                current.setLength(0);
            }
        }
        return found;
    }

    /** One pass of a compaction worker: takes one request of the queue, if there is one. */
    public static void work(Map<String, String> settings) throws Exception {
        pass(new Worker(), settings);
    }

    /** The same by a worker of that pool, which leaves the requests of other pools alone. */
    public static void workFor(String pool, Map<String, String> settings) throws Exception {
        Worker worker = new Worker();
        worker.setPoolName(pool);
        pass(worker, settings);
    }

    /** Serves a pool with so many workers at a time, until none of its requests waits or is worked on. */
    public static void workers(String pool, int threads, Map<String, String> settings) throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        List<Worker> workers = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            HiveConf conf = new HiveConf();
            settings.forEach(conf::set);
            Worker worker = new Worker();
            worker.setPoolName(pool);
            worker.setConf(conf);
            worker.init(stop);
            workers.add(worker);
        }
        workers.forEach(Thread::start);
        while (waits(pool, "i") || waits(pool, "w")) {
            Thread.sleep(100);
        }
        stop.set(true);
        for (Worker worker : workers) {
            // It sleeps for ten seconds where it finds no request.
            worker.interrupt();
            worker.join();
        }
    }

    private static boolean waits(String pool, String state) throws Exception {
        ShowCompactRequest request = new ShowCompactRequest();
        request.setPoolName(pool);
        request.setState(state);
        request.setLimit(1);
        return !store().showCompact(request).getCompacts().isEmpty();
    }

    /** One pass of the cleaner. */
    public static void clean(Map<String, String> settings) throws Exception {
        pass(new Cleaner(), settings);
    }

    /** One pass of the initiator, which requests the compactions it finds due. */
    public static void initiate(Map<String, String> settings) throws Exception {
        pass(new Initiator(), settings);
    }

    /** Aborts the transactions that nobody has given a sign of life for, and the locks alike. */
    public static void timeOut(Map<String, String> settings) {
        once(new AcidHouseKeeperService(), settings);
    }

    /** Forgets aborted transactions of which nothing is recorded any more. */
    public static void forgetEmptyAborts() {
        once(new AcidTxnCleanerService(), Collections.emptyMap());
    }

    private static void once(MetastoreTaskThread service, Map<String, String> settings) {
        HiveConf conf = new HiveConf();
        settings.forEach(conf::set);
        service.setConf(conf);
        service.run();
    }

    private static void pass(CompactorThread thread, Map<String, String> settings) throws Exception {
        HiveConf conf = new HiveConf();
        settings.forEach(conf::set);
        thread.setConf(conf);
        thread.init(new AtomicBoolean(true));
        Thread own = new Thread(() -> thread.run(), "acidctl-" + thread.getClass().getSimpleName());
        own.start();
        own.join();
    }

    /** Lets the next transaction be `first`, which must be above all before it. */
    public static void seedTransactions(long first) throws Exception {
        store().seedTxnId(new SeedTxnIdRequest(first - 1));
    }

    /** Forgets ended transactions of which nothing is left in any table. */
    public static void forgetTransactions() throws Exception {
        store().cleanEmptyAbortedAndCommittedTxns();
    }

    private static TxnStore store() {
        return TxnUtils.getTxnStore(new HiveConf());
    }

    /** Starts the write ids of a fresh table after `last`; everything up to it counts as committed. */
    public static void seedWriteIds(String database, String table, long last) throws Exception {
        store().seedWriteId(new SeedTableWriteIdsRequest(database, table, last));
    }
}
