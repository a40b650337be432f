package acidctl;

import java.io.IOException;
import java.util.List;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;

/** Files that Hive's SQL cannot write, by the ORC writer that Hive ships with. */
public final class ForeignFile {
    private ForeignFile() {}

    /** Rows `struct<id:int,s:string>` numbered from `first`, whose strings are these bytes as they are. */
    public static void strings(String path, int first, List<byte[]> values) throws IOException {
        TypeDescription schema = TypeDescription.fromString("struct<id:int,s:string>");
        try (Writer writer = OrcFile.createWriter(new Path(path), OrcFile.writerOptions(new Configuration()).setSchema(schema))) {
            VectorizedRowBatch batch = schema.createRowBatch();
            for (byte[] value : values) {
                ((LongColumnVector) batch.cols[0]).vector[batch.size] = first + batch.size;
                ((BytesColumnVector) batch.cols[1]).setVal(batch.size, value);
                batch.size++;
            }
            writer.addRowBatch(batch);
        }
    }
}
