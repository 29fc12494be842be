import org.apache.kafka.common.security.auth.AuthenticationContext;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;

/** Whoever comes without a login is User:matrix on listeners with this builder, instead of User:ANONYMOUS, who may do all. */
public final class GuestPrincipal extends DefaultKafkaPrincipalBuilder {
    public GuestPrincipal() {
        super(null, null);
    }

    @Override
    public KafkaPrincipal build(AuthenticationContext context) {
        return new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "matrix");
    }
}
