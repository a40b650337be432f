import java.io.BufferedInputStream;
import java.io.BufferedWriter;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.OutputStreamWriter;

/** Reads big-endian doubles (argument "d") or floats ("f") from stdin, prints each as Java does, one a line. */
public class FloatTexts {
  public static void main(String[] args) throws Exception {
    boolean single = args[0].equals("f");
    DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
    BufferedWriter out = new BufferedWriter(new OutputStreamWriter(System.out));
    try {
      while (true) {
        out.write(single ? Float.toString(in.readFloat()) : Double.toString(in.readDouble()));
        out.write('\n');
      }
    } catch (EOFException end) {
      out.flush();
    }
  }
}
