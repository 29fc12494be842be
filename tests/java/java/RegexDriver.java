import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

/**
 * RE2/J behind a line protocol: an expression and texts, separated by tabs. The answer has a digit for each text, 1 if it
 * matches as a whole, or is "invalid".
 */
public final class RegexDriver {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = lines.readLine()) != null) {
            String[] fields = line.split("\t", -1);
            StringBuilder answer = new StringBuilder();
            try {
                Pattern pattern = Pattern.compile(fields[0]);
                for (int i = 1; i < fields.length; i++) {
                    answer.append(pattern.matcher(fields[i]).matches() ? '1' : '0');
                }
            } catch (PatternSyntaxException error) {
                answer.append("invalid");
            }
            System.out.println(answer);
        }
    }
}
