import org.apache.kafka.common.security.auth.AuthenticationContext;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;

/** On listeners with this builder, clients without a login are User:matrix instead of User:ANONYMOUS, which is a super user. */
public final class GuestPrincipal extends DefaultKafkaPrincipalBuilder {
    public GuestPrincipal() {
        super(null, null);
    }

    @Override
    public KafkaPrincipal build(AuthenticationContext context) {
        return new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "matrix");
    }
}
