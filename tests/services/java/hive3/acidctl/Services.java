package acidctl;

import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.GetValidWriteIdsRequest;
import org.apache.hadoop.hive.metastore.api.InitializeTableWriteIdsRequest;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.Initiator;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/** What runs beside the sessions of a warehouse in Hive 3.1: metastore set-up, compaction worker, cleaner. */
public final class Services {
    private Services() {}

    /** Makes the metastore's tables and the transaction tables in the configured, empty database. */
    public static void createMetastore() throws Exception {
        HiveConf conf = new HiveConf();
        // Nobody serves it yet.
        conf.set("hive.metastore.uris", "");
        TxnDbUtil.setConfValues(conf);
        conf.setBoolean("hive.in.test", true);
        // Makes all tables at once, TAB_COL_STATS too, without which the compactor dies.
        new HiveMetaStoreClient(conf).close();
        conf.setBoolean("hive.in.test", false);
        TxnDbUtil.prepDb(conf);
    }

    /** ValidTxnWriteIdList of `db.table`s under a ValidTxnList, as text. */
    static String writeIdLists(HiveConf conf, List<String> tables, String txns) throws Exception {
        TxnStore store = TxnUtils.getTxnStore(conf);
        GetValidWriteIdsRequest request = new GetValidWriteIdsRequest(tables, txns);
        return TxnUtils.createValidTxnWriteIdList(0L, store.getValidWriteIds(request).getTblValidWriteIds())
                .toString();
    }

    /** One pass of a compaction worker: takes one request of the queue, if there is one. */
    public static void work(Map<String, String> settings) throws Exception {
        Worker worker = new Worker();
        worker.setConf(configuration(settings));
        worker.setThreadId((int) worker.getId());
        worker.init(new AtomicBoolean(true), new AtomicBoolean());
        pass(worker, settings);
    }

    /** One pass of the cleaner. */
    public static void clean(Map<String, String> settings) throws Exception {
        Cleaner cleaner = new Cleaner();
        cleaner.setConf(configuration(settings));
        cleaner.setThreadId((int) cleaner.getId());
        cleaner.init(new AtomicBoolean(true), new AtomicBoolean());
        pass(cleaner, settings);
    }

    /** One pass of the initiator, which requests the compactions it finds due. */
    public static void initiate(Map<String, String> settings) throws Exception {
        Initiator initiator = new Initiator();
        initiator.setConf(configuration(settings));
        initiator.setThreadId((int) initiator.getId());
        initiator.init(new AtomicBoolean(true), new AtomicBoolean());
        pass(initiator, settings);
    }

    /** Aborts the transactions that nobody has given a sign of life for, and the locks alike. */
    public static void timeOut(Map<String, String> settings) {
        TxnUtils.getTxnStore(configuration(settings)).performTimeOuts();
    }

    /** Forgets aborted transactions of which nothing is recorded any more. */
    public static void forgetEmptyAborts() throws Exception {
        TxnUtils.getTxnStore(new HiveConf()).cleanEmptyAbortedTxns();
    }

    /** Lets the next transaction be `first`, which must be above all before it. */
    public static void seedTransactions(long first) throws Exception {
        TransactionTables.seed(first);
    }

    /** Forgets aborted transactions; the tables they wrote to must be dropped. */
    public static void forgetTransactions() throws Exception {
        TransactionTables.forgetAborted();
    }

    private static HiveConf configuration(Map<String, String> settings) {
        HiveConf conf = new HiveConf();
        settings.forEach(conf::set);
        return conf;
    }

    /** With a session in its thread: the compaction of insert-only tables needs its folders and makes none itself. */
    private static void pass(Runnable service, Map<String, String> settings) throws InterruptedException {
        Thread own = new Thread(() -> {
            SessionState.start(new SessionState(configuration(settings)));
            try {
                service.run();
            } finally {
                SessionState.detachSession();
            }
        }, "acidctl-" + service.getClass().getSimpleName());
        own.start();
        own.join();
    }

    /** Starts the write ids of a fresh table after `last`; everything up to it counts as committed. */
    public static void seedWriteIds(String database, String table, long last) throws Exception {
        TxnStore store = TxnUtils.getTxnStore(new HiveConf());
        store.seedWriteIdOnAcidConversion(new InitializeTableWriteIdsRequest(database, table, last));
    }
}
