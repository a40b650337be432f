package acidctl;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;

import org.apache.hadoop.hive.common.ValidTxnList;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.TableValidWriteIds;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;

/** The lists that Hive's own code makes of what the metastore answers now. */
public final class ValidLists implements AutoCloseable {
    private final HiveMetaStoreClient client;

    public ValidLists() throws Exception {
        client = new HiveMetaStoreClient(new HiveConf());
    }

    /** For transaction `own` (0: none): transactions, write ids of `db.table` for a reader, and for the compactor. */
    public List<String> of(String table, long own) throws Exception {
        ValidTxnList txns = own == 0 ? client.getValidTxns() : client.getValidTxns(own);
        List<TableValidWriteIds> ids = client.getValidWriteIds(Collections.singletonList(table), txns.writeToString());
        return Arrays.asList(
                txns.writeToString(),
                TxnUtils.createValidReaderWriteIdList(ids.get(0)).writeToString(),
                TxnUtils.createValidCompactWriteIdList(ids.get(0)).writeToString());
    }

    @Override
    public void close() {
        client.close();
    }
}
