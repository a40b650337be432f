package acidctl;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.AbortTxnRequest;
import org.apache.hadoop.hive.metastore.api.AllocateTableWriteIdsRequest;
import org.apache.hadoop.hive.metastore.api.CommitTxnRequest;
import org.apache.hadoop.hive.metastore.api.OpenTxnRequest;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.StorageDescriptor;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.hadoop.hive.ql.metadata.Hive;

/** Gives a table the write ids and partitions of directories that were made elsewhere, in Hive 3 and 4. */
public final class Adoption {
    private Adoption() {}

    /**
     * Ends or leaves the write ids above the seeded ones, in order: one id per character of `fates`, `c` committed,
     * `a` aborted, `o` left open. Returns the transactions that are open.
     */
    public static List<Long> writeIds(String database, String table, String fates) throws Exception {
        List<Long> open = new ArrayList<>();
        TxnStore store = store();
        for (char fate : fates.toCharArray()) {
            long txn = open();
            AllocateTableWriteIdsRequest request = new AllocateTableWriteIdsRequest(database, table);
            request.setTxnIds(Collections.singletonList(txn));
            store.allocateTableWriteIds(request);
            if (fate == 'c') {
                store.commitTxn(new CommitTxnRequest(txn));
            } else if (fate == 'a') {
                store.abortTxn(new AbortTxnRequest(txn));
            } else {
                open.add(txn);
            }
        }
        return open;
    }

    /** Opens a transaction that writes nothing by itself. */
    public static long open() throws Exception {
        return store().openTxns(new OpenTxnRequest(1, "acidctl", "localhost")).getTxn_ids().get(0);
    }

    /** Commits a transaction that was left open. */
    public static void commit(long txn) throws Exception {
        store().commitTxn(new CommitTxnRequest(txn));
    }

    /** Ends a transaction that was left open. */
    public static void abort(long txn) throws Exception {
        store().abortTxn(new AbortTxnRequest(txn));
    }

    /** Adds a partition whose files are at `location` already; its values may be what SQL refuses to name. */
    public static void addPartition(String database, String table, List<String> values, String location)
            throws Exception {
        Table own = Hive.get(new HiveConf()).getTable(database, table).getTTable();
        Partition partition = new Partition();
        partition.setDbName(database);
        partition.setTableName(table);
        partition.setValues(new ArrayList<>(values));
        partition.setParameters(new HashMap<>());
        partition.setSd(new StorageDescriptor(own.getSd()));
        partition.getSd().setLocation(location);
        IMetaStoreClient client = new HiveMetaStoreClient(new HiveConf());
        client.add_partition(partition);
        client.close();
    }

    private static TxnStore store() {
        return TxnUtils.getTxnStore(new HiveConf());
    }
}
