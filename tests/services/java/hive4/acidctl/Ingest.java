package acidctl;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.LockComponentBuilder;
import org.apache.hadoop.hive.metastore.LockRequestBuilder;
import org.apache.hadoop.hive.metastore.api.DataOperationType;
import org.apache.hadoop.hive.metastore.api.TxnToWriteId;
import org.apache.hadoop.hive.ql.io.AcidOutputFormat;
import org.apache.hadoop.hive.ql.io.RecordUpdater;
import org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.mapred.Reporter;

/**
 * A batch of transactions written as streaming ingest writes them: one file per bucket over the whole range of write
 * ids, flushed at each commit, which appends to the `_flush_length` side file. Hive's streaming library is not
 * published for Hive 4; this goes through the same record updater.
 */
public final class Ingest {
    private final IMetaStoreClient client;
    private final HiveConf conf = new HiveConf();
    private final List<TxnToWriteId> ids;
    private final Path directory;
    private final ObjectInspector inspector;
    private final Map<Integer, RecordUpdater> writers = new LinkedHashMap<>();
    private final Properties properties = new Properties();
    private int next;

    /** `directory` is the table's or partition's; `row` the type of a row, `struct<id:int,v:string>`. */
    public Ingest(String database, String table, String partition, String directory, String row, int transactions)
            throws Exception {
        client = new HiveMetaStoreClient(conf);
        List<Long> txns = client.openTxns("acidctl", transactions).getTxn_ids();
        for (long txn : txns) {
            LockComponentBuilder lock = new LockComponentBuilder().setDbName(database).setTableName(table)
                    .setIsTransactional(true).setOperationType(DataOperationType.INSERT).setSharedRead();
            if (partition != null) {
                lock.setPartitionName(partition);
            }
            client.lock(new LockRequestBuilder("acidctl").setTransactionId(txn).setUser("acidctl")
                    .addLockComponent(lock.build()).build());
        }
        ids = new ArrayList<>(client.allocateTableWriteIdsBatch(txns, database, table));
        Collections.sort(ids, (a, b) -> Long.compare(a.getWriteId(), b.getWriteId()));
        this.directory = new Path(directory);
        inspector = TypeInfoUtils.getStandardJavaObjectInspectorFromTypeInfo(
                TypeInfoUtils.getTypeInfoFromTypeString(row));
        conf.set("transactional", "true");
        properties.setProperty("transactional", "true");
    }

    /** Adds a row to a bucket under the transaction that is current; `null` elements are NULL. */
    public void insert(int bucket, List<Object> row) throws IOException {
        RecordUpdater writer = writers.get(bucket);
        if (writer == null) {
            AcidOutputFormat.Options options = new AcidOutputFormat.Options(conf)
                    .inspector(inspector).bucket(bucket).reporter(Reporter.NULL).tableProperties(properties)
                    .minimumWriteId(ids.get(0).getWriteId()).maximumWriteId(ids.get(ids.size() - 1).getWriteId())
                    .statementId(-1).finalDestination(directory);
            writer = new OrcOutputFormat().getRecordUpdater(directory, options);
            writers.put(bucket, writer);
        }
        writer.insert(ids.get(next).getWriteId(), new ArrayList<>(row));
    }

    /** Flushes without ending the transaction, as a writer does that dies afterwards. */
    public void flush() throws IOException {
        for (RecordUpdater writer : writers.values()) {
            writer.flush();
        }
    }

    /** Ends the current transaction as committed and goes on to the next. */
    public void commit() throws Exception {
        flush();
        client.commitTxn(ids.get(next++).getTxnId());
    }

    /** Ends the current transaction as aborted and goes on to the next; what it inserted stays in the file. */
    public void abort() throws Exception {
        client.rollbackTxn(ids.get(next++).getTxnId());
    }

    /** Leaves the current transaction open and goes on to the next. */
    public void leaveOpen() {
        next++;
    }

    /** Closes the files, which removes the side files. */
    public void closeFiles() throws IOException {
        for (RecordUpdater writer : writers.values()) {
            writer.close(false);
        }
        writers.clear();
    }

    /** Aborts what is still open. */
    public void abandon() throws Exception {
        for (TxnToWriteId id : ids) {
            try {
                client.rollbackTxn(id.getTxnId());
            } catch (org.apache.thrift.TException ended) {
                // Already committed or aborted.
            }
        }
        client.close();
    }

    /** The write ids of the batch, in order. */
    public List<Long> writeIds() {
        Long[] found = ids.stream().map(TxnToWriteId::getWriteId).toArray(Long[]::new);
        return Arrays.asList(found);
    }
}
