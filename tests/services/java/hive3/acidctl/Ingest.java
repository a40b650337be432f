package acidctl;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hive.streaming.HiveStreamingConnection;
import org.apache.hive.streaming.StreamingException;
import org.apache.hive.streaming.StrictDelimitedInputWriter;

/** A batch of transactions written by Hive's own streaming library, which picks the bucket of a row itself. */
public final class Ingest {
    private final HiveStreamingConnection connection;
    private boolean begun;

    /** `partition` is a folder name (`ds=1/hr=2`) or null; `directory` and `row` follow from the table. */
    public Ingest(String database, String table, String partition, String directory, String row, int transactions)
            throws StreamingException {
        HiveStreamingConnection.Builder builder = HiveStreamingConnection.newBuilder()
                .withDatabase(database).withTable(table).withAgentInfo("acidctl")
                .withTransactionBatchSize(transactions).withHiveConf(new HiveConf())
                .withRecordWriter(StrictDelimitedInputWriter.newBuilder().withFieldDelimiter('\u0001').build());
        if (partition != null) {
            List<String> values = new ArrayList<>();
            for (String folder : partition.split("/")) {
                values.add(folder.substring(folder.indexOf('=') + 1));
            }
            builder.withStaticPartitionValues(values);
        }
        connection = builder.connect();
    }

    /** Adds a row under the transaction that is current; `null` elements are NULL. */
    public void insert(int bucket, List<Object> row) throws StreamingException {
        begin();
        StringBuilder text = new StringBuilder();
        for (Object value : row) {
            text.append(text.length() == 0 ? "" : "\u0001").append(value == null ? "\\N" : value);
        }
        connection.write(text.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** Nothing: the library flushes at a commit only, so an open transaction's rows are still in memory. */
    public void flush() {}

    /** Ends the current transaction as committed. */
    public void commit() throws StreamingException {
        begin();
        connection.commitTransaction();
        begun = false;
    }

    /** Ends the current transaction as aborted; what it inserted stays in the file. */
    public void abort() throws StreamingException {
        begin();
        connection.abortTransaction();
        begun = false;
    }

    /** The current transaction stays open; the library lets no other follow it. */
    public void leaveOpen() throws StreamingException {
        begin();
    }

    /** Ends the connection: aborts what is still open, closes the files and thereby removes the side files. */
    public void closeFiles() {
        connection.close();
    }

    /** The same as `closeFiles`. */
    public void abandon() {
        connection.close();
    }

    private void begin() throws StreamingException {
        if (!begun) {
            connection.beginTransaction();
            begun = true;
        }
    }
}
