import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.orc.storage.common.type.HiveDecimal;
import org.apache.orc.storage.ql.exec.vector.*;
import org.apache.orc.CompressionKind;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;

/** Writes ORC files with the values that break readers, by ORC's own Java writer, into the folder given. */
public class EdgeFiles {
  static final long DAY = 86_400_000L;
  // 0001-01-01, 1500-02-28, around the calendar switch (proleptic days), the epoch, 9999-12-31, 10000-01-01.
  static final int[] DAYS = {
    -719162, -171700, -141438, -141437, -141430, -141428, -141427, -1, 0, 1, 18262, 2932896, 2932897};
  static final long[] MILLIS = {
    -62135596800000L, -14831683200000L, -12219897600000L, -12219292800000L, -9223372037000L, -86400000L, -2000L,
    -1000L, 0L, 1000L, 1577836800000L, 9223372036000L, 253402300799000L, 253402300800000L};
  static final int[] NANOS = {0, 1, 500_000_000, 999_999_999, 120_000_000, 1_000};
  static final double[] DOUBLES = {
    0.0, -0.0, 1.0, -1.5, 0.1, 1e7, 9999999.999, 1e-3, 9.99e-4, 1e-300, 4.9e-324, 1e23, 2e23, 9.007199254740993e15,
    1.7976931348623157e308, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 1.0E22, 123456789012.5};
  static final String[] STRINGS = {
    "", "a", "quote \" backslash \\ slash /", "tab\tnewline\nreturn\rbell\u0007nul\u0000del\u007f", "<b>&amp;'=",
    "\u2028\u2029", "\u00e9\u20ac\ud83d\ude00", " blanks ", "x".repeat(1500)};
  static final byte[][] BROKEN = {
    {(byte) 0xff}, {'a', (byte) 0xc3}, {(byte) 0xed, (byte) 0xa0, (byte) 0x80, 'b'}, {(byte) 0xf0, (byte) 0x9f, (byte) 0x98},
    {(byte) 0xe2, (byte) 0x28, (byte) 0xa1}, {(byte) 0xc0, (byte) 0x80}};

  interface Filler {
    void fill(VectorizedRowBatch batch, int at, int row);
  }

  static void write(String path, String schema, int rows, boolean proleptic, String bloom, Filler filler) throws Exception {
    TypeDescription type = TypeDescription.fromString(schema);
    OrcFile.WriterOptions options = OrcFile.writerOptions(new Configuration()).setSchema(type)
        .setProlepticGregorian(proleptic).rowIndexStride(1000).overwrite(true)
        .compress(bloom.isEmpty() ? CompressionKind.SNAPPY : CompressionKind.ZLIB).bloomFilterColumns(bloom);
    try (Writer writer = OrcFile.createWriter(new Path(path), options)) {
      VectorizedRowBatch batch = type.createRowBatch();
      for (int row = 0; row < rows; row++) {
        filler.fill(batch, batch.size++, row);
        if (batch.size == batch.getMaxSize()) {
          writer.addRowBatch(batch);
          batch.reset();
        }
      }
      writer.addRowBatch(batch);
      writer.addUserMetadata("note", java.nio.ByteBuffer.wrap("caf\u00e9".getBytes(StandardCharsets.UTF_8)));
    }
  }

  static void setNull(ColumnVector vector, int at) {
    vector.noNulls = false;
    vector.isNull[at] = true;
  }

  static void time(TimestampColumnVector vector, boolean proleptic, int at, int row, int count) {
    vector.changeCalendar(proleptic, false);
    if (row % 17 == 16) {
      setNull(vector, at);
      return;
    }
    int nanos = NANOS[row / count % NANOS.length];
    vector.time[at] = MILLIS[row % count] + nanos / 1_000_000;
    vector.nanos[at] = nanos;
  }

  static void times(String folder, boolean proleptic) throws Exception {
    write(folder + "/times_" + (proleptic ? "proleptic" : "hybrid") + ".orc",
        "struct<d:date,t:timestamp,i:timestamp with local time zone>", 400, proleptic, "", (batch, at, row) -> {
          DateColumnVector dates = (DateColumnVector) batch.cols[0];
          dates.changeCalendar(proleptic, false);
          dates.vector[at] = DAYS[row % DAYS.length];
          if (row % 19 == 18) {
            setNull(dates, at);
          }
          time((TimestampColumnVector) batch.cols[1], proleptic, at, row, MILLIS.length);
          time((TimestampColumnVector) batch.cols[2], proleptic, at, row, MILLIS.length);
        });
  }

  static void text(BytesColumnVector vector, int at, byte[] value) {
    vector.setVal(at, value);
  }

  static void leaves(String folder) throws Exception {
    Random random = new Random(5);
    String schema = "struct<b:boolean,y:tinyint,s:smallint,i:int,l:bigint,f:float,d:double,t:string,c:char(5),"
        + "v:varchar(7),x:binary,n:decimal(38,10),m:decimal(18,2),z:decimal(7,7),k:decimal(20,0),`odd name`:int>";
    write(folder + "/leaves.orc", schema, 3000, true, "l,t,d", (batch, at, row) -> {
      ((LongColumnVector) batch.cols[0]).vector[at] = row % 2;
      for (int column = 1; column < 5; column++) {
        long value = random.nextLong() >> (64 - (8 << (column - 1)));
        ((LongColumnVector) batch.cols[column]).vector[at] = value;
      }
      double number = row < 200 ? DOUBLES[row % DOUBLES.length] : random.nextDouble() * Math.pow(10, row % 40 - 20);
      ((DoubleColumnVector) batch.cols[5]).vector[at] = (float) number;
      ((DoubleColumnVector) batch.cols[6]).vector[at] = number;
      byte[] value = row < 100 ? STRINGS[row % STRINGS.length].getBytes(StandardCharsets.UTF_8)
          : row < 130 ? BROKEN[row % BROKEN.length] : ("text " + row % 50).getBytes(StandardCharsets.UTF_8);
      text((BytesColumnVector) batch.cols[7], at, value);
      text((BytesColumnVector) batch.cols[8], at, ("c" + row % 3).getBytes(StandardCharsets.UTF_8));
      text((BytesColumnVector) batch.cols[9], at, ("v " + row % 3 + " ").getBytes(StandardCharsets.UTF_8));
      text((BytesColumnVector) batch.cols[10], at, row % 4 == 0 ? new byte[0] : value);
      String[] numbers = {"0", "1.5", "-0.0000000001", "1234567890123456789012345678.0123456789", "100", "-7.10"};
      ((DecimalColumnVector) batch.cols[11]).set(at, HiveDecimal.create(numbers[row % numbers.length]));
      ((DecimalColumnVector) batch.cols[12]).set(at, HiveDecimal.create(row % 5 == 0 ? "-12.30" : row % 3 + ".05"));
      ((DecimalColumnVector) batch.cols[13]).set(at, HiveDecimal.create(row % 2 == 0 ? "0.0000001" : "0"));
      ((DecimalColumnVector) batch.cols[14]).set(at, HiveDecimal.create("1" + "0".repeat(row % 20)));
      ((LongColumnVector) batch.cols[15]).vector[at] = 7;
      for (int column = 0; column < 15; column++) {
        if ((row + column) % 23 == 22) {
          setNull(batch.cols[column], at);
        }
      }
    });
  }

  static void nested(String folder) throws Exception {
    String schema = "struct<a:array<array<int>>,m:map<string,struct<p:int,q:string>>,u:uniontype<int,string,array<int>>,"
        + "s:struct<e:struct<f:boolean>,g:array<uniontype<double,date>>>>";
    write(folder + "/nested.orc", schema, 2500, true, "", (batch, at, row) -> {
      ListColumnVector outer = (ListColumnVector) batch.cols[0];
      ListColumnVector inner = (ListColumnVector) outer.child;
      outer.offsets[at] = outer.childCount;
      outer.lengths[at] = row % 4;
      inner.ensureSize(outer.childCount + 4, true);
      for (int item = 0; item < row % 4; item++) {
        int place = outer.childCount++;
        inner.offsets[place] = inner.childCount;
        inner.lengths[place] = item;
        inner.child.ensureSize(inner.childCount + 4, true);
        for (int number = 0; number < item; number++) {
          ((LongColumnVector) inner.child).vector[inner.childCount] = row + number;
          if (number == 1) {
            setNull(inner.child, inner.childCount);
          }
          inner.childCount++;
        }
        if (item == 2) {
          setNull(inner, place);
        }
      }
      MapColumnVector map = (MapColumnVector) batch.cols[1];
      StructColumnVector values = (StructColumnVector) map.values;
      map.offsets[at] = map.childCount;
      map.lengths[at] = row % 3;
      map.keys.ensureSize(map.childCount + 3, true);
      values.ensureSize(map.childCount + 3, true);
      for (int item = 0; item < row % 3; item++) {
        int place = map.childCount++;
        text((BytesColumnVector) map.keys, place, ("k" + item).getBytes(StandardCharsets.UTF_8));
        ((LongColumnVector) values.fields[0]).vector[place] = row;
        text((BytesColumnVector) values.fields[1], place, ("q\"" + row).getBytes(StandardCharsets.UTF_8));
        if (row % 5 == 4) {
          setNull(values, place);
        }
      }
      UnionColumnVector union = (UnionColumnVector) batch.cols[2];
      union.tags[at] = row % 3;
      ((LongColumnVector) union.fields[0]).vector[at] = row;
      text((BytesColumnVector) union.fields[1], at, ("u" + row).getBytes(StandardCharsets.UTF_8));
      ListColumnVector third = (ListColumnVector) union.fields[2];
      third.offsets[at] = third.childCount;
      third.lengths[at] = 1;
      third.child.ensureSize(third.childCount + 1, true);
      ((LongColumnVector) third.child).vector[third.childCount++] = -row;
      StructColumnVector struct = (StructColumnVector) batch.cols[3];
      ((LongColumnVector) ((StructColumnVector) struct.fields[0]).fields[0]).vector[at] = row % 2;
      ListColumnVector list = (ListColumnVector) struct.fields[1];
      UnionColumnVector items = (UnionColumnVector) list.child;
      list.offsets[at] = list.childCount;
      list.lengths[at] = row % 3;
      items.ensureSize(list.childCount + 3, true);
      for (int item = 0; item < row % 3; item++) {
        int place = list.childCount++;
        items.tags[place] = item;
        ((DoubleColumnVector) items.fields[0]).vector[place] = row / 8.0;
        DateColumnVector dates = (DateColumnVector) items.fields[1];
        dates.changeCalendar(true, false);
        dates.vector[place] = row;
      }
      if (row % 11 == 10) {
        for (ColumnVector column : batch.cols) {
          setNull(column, at);
        }
      }
    });
  }

  /** Columns that the reader delivers as one repeated value, and columns that are NULL throughout. */
  static void constant(String folder) throws Exception {
    write(folder + "/constant.orc", "struct<i:int,t:string,n:int,u:uniontype<int,string>,a:array<int>,s:struct<x:int>>",
        2100, true, "", (batch, at, row) -> {
          ((LongColumnVector) batch.cols[0]).vector[at] = 5;
          text((BytesColumnVector) batch.cols[1], at, "same".getBytes(StandardCharsets.UTF_8));
          setNull(batch.cols[2], at);
          UnionColumnVector union = (UnionColumnVector) batch.cols[3];
          union.tags[at] = 1;
          text((BytesColumnVector) union.fields[1], at, "u".getBytes(StandardCharsets.UTF_8));
          ListColumnVector list = (ListColumnVector) batch.cols[4];
          list.offsets[at] = list.childCount;
          list.lengths[at] = 0;
          ((LongColumnVector) ((StructColumnVector) batch.cols[5]).fields[0]).vector[at] = 1;
        });
    write(folder + "/empty.orc", "struct<i:int,d:decimal(38,2),t:timestamp>", 0, true, "", (batch, at, row) -> { });
  }

  public static void main(String[] args) throws Exception {
    times(args[0], true);
    times(args[0], false);
    leaves(args[0]);
    nested(args[0]);
    constant(args[0]);
  }
}
