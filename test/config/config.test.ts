import test from "ava";
import { ConfigError, parseConfig } from "../../config/config.ts";

test("without any setting the service listens on the loopback address and brings its own parts", (t) => {
  t.like(parseConfig({}), {
    HOST: "127.0.0.1",
    PORT: 8080,
    STORE_PORT: 8081,
    DATA_DIR: "./.data",
    DATABASE_URL: undefined,
    TEMPORAL_ADDRESS: undefined,
    STRIPE_SECRET_KEY: undefined,
    STRIPE_API_BASE: "https://api.stripe.com",
  });
});

test("an empty variable counts as not set", (t) => {
  t.is(parseConfig({ PORT: "", DATABASE_URL: "" }).PORT, 8080);
});

test("a trailing slash of an address is dropped", (t) => {
  t.is(
    parseConfig({ PUBLIC_BASE_URL: "https://impact.example.org/" }).PUBLIC_BASE_URL,
    "https://impact.example.org",
  );
});

test("every malformed setting is named at once, with what it must be", (t) => {
  const error = t.throws(
    () => parseConfig({ PORT: "eighty", DATABASE_URL: "mysql://x", STRIPE_SECRET_KEY: "pk_oops" }),
    { instanceOf: ConfigError },
  );
  t.regex(error?.message ?? "", /PORT must be a port number/u);
  t.regex(error?.message ?? "", /DATABASE_URL must be a postgres:\/\//u);
  t.regex(error?.message ?? "", /STRIPE_SECRET_KEY must be a Stripe secret/u);
  t.notRegex(error?.message ?? "", /pk_oops/u);
});

const refuses = test.macro({
  exec: (t, name: string, value: string) => {
    t.throws(() => parseConfig({ [name]: value }), {
      instanceOf: ConfigError,
      message: new RegExp(name, "u"),
    });
  },
  title: (_, name, value) => `${String(name)}=${String(value)} is refused`,
});

test(refuses, "PORT", "65536");
test(refuses, "PORT", "-1");
test(refuses, "PORT", "80.5");
test(refuses, "METRICS_PORT", "none");
test(refuses, "PUBLIC_BASE_URL", "ftp://example.org");
test(refuses, "TEMPORAL_ADDRESS", "http://localhost:7233");
test(refuses, "DATABASE_POOL_SIZE", "1");
test(refuses, "LOG_LEVEL", "loud");
test(refuses, "LOG_FORMAT", "xml");
