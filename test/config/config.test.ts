import test from "ava";
import { ConfigError, parseConfig } from "../../config/config.ts";

test("by default the service listens on the loopback interface and uses embedded servers", (t) => {
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

test("a trailing slash of a URL is removed", (t) => {
  t.is(
    parseConfig({ PUBLIC_BASE_URL: "https://impact.example.org/" }).PUBLIC_BASE_URL,
    "https://impact.example.org",
  );
});

test("every malformed setting is reported with what it must be", (t) => {
  const error = t.throws(
    () => parseConfig({ PORT: "eighty", DATABASE_URL: "mysql://x", STRIPE_SECRET_KEY: "pk_oops" }),
    { instanceOf: ConfigError },
  );
  t.regex(error?.message ?? "", /PORT must be a port number/u);
  t.regex(error?.message ?? "", /DATABASE_URL must be a URL like postgres:\/\//u);
  t.regex(error?.message ?? "", /STRIPE_SECRET_KEY must be a Stripe secret/u);
  t.notRegex(error?.message ?? "", /pk_oops/u);
});

const rejects = test.macro({
  exec: (t, name: string, value: string) => {
    t.throws(() => parseConfig({ [name]: value }), {
      instanceOf: ConfigError,
      message: new RegExp(name, "u"),
    });
  },
  title: (_, name, value) => `${String(name)}=${String(value)} is rejected`,
});

test(rejects, "PORT", "65536");
test(rejects, "PORT", "-1");
test(rejects, "PORT", "80.5");
test(rejects, "METRICS_PORT", "none");
test(rejects, "PUBLIC_BASE_URL", "ftp://example.org");
test(rejects, "TEMPORAL_ADDRESS", "http://localhost:7233");
test(rejects, "DATABASE_POOL_SIZE", "1");
test(rejects, "STRIPE_API_BASE", "http://api.stripe.com");
test(rejects, "EVERYORG_API_BASE", "http://127.0.0.1.example.org");
test(rejects, "CHANGE_API_BASE", "http://localhost.example.org");
test(rejects, "PLEDGE_API_BASE", "http://10.0.0.1");
test(rejects, "TREEMAPPER_API_BASE", "http://user@example.org");
test(rejects, "PLANTING_CALLBACK_SECRET", "s".repeat(31));
test(rejects, "PLANTING_CALLBACK_SECRET", Array(3).fill("s".repeat(32)).join(","));
test(rejects, "LOG_LEVEL", "loud");
test(rejects, "LOG_FORMAT", "xml");

test("an API on this machine may be without encryption", (t) => {
  for (const url of [
    "http://localhost:1",
    "http://127.0.0.1:1",
    "http://127.1.2.3",
    "http://[::1]:1",
  ]) {
    t.is(parseConfig({ STRIPE_API_BASE: url }).STRIPE_API_BASE, url);
  }
});
