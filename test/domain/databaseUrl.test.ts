import test from "ava";
import {
  completeDatabaseUrl,
  DatabaseUrlError,
  nameDatabase,
  parseDatabaseUrl,
  withoutPassword,
} from "../../domain/databaseUrl.ts";

const modesOf = (url: string): readonly string[] =>
  parseDatabaseUrl(url).servers.map(({ sslMode }) => sslMode);

test("a connection is plain text on this machine, and encrypted elsewhere", (t) => {
  for (const url of [
    "postgres://localhost/impact",
    "postgres://127.0.0.1:5432/impact",
    "postgres://user:password@[::1]:5432/impact",
    "postgres:///impact",
    "postgres://user@/impact?host=/var/run/postgresql",
    "postgresql://%2Fvar%2Frun%2Fpostgresql/impact",
  ]) {
    t.deepEqual(modesOf(url), ["disable"], url);
  }
  for (const url of [
    "postgres://db.example.org/impact",
    "postgres://10.0.0.1/impact",
    "postgres://localhost.example.org/impact",
    "postgres://127.0.0.1.example.org/impact",
    "postgres:///impact?host=db.example.org",
  ]) {
    t.deepEqual(modesOf(url), ["require"], url);
  }
  t.deepEqual(modesOf("postgres://localhost,db.example.org/impact"), ["require", "require"]);
});

test("sslmode decides, except for a Unix socket", (t) => {
  t.deepEqual(modesOf("postgres://db.example.org/impact?sslmode=disable"), ["disable"]);
  t.deepEqual(modesOf("postgres://localhost/impact?sslmode=verify-full"), ["verify-full"]);
  t.deepEqual(modesOf("postgres://localhost/impact?sslmode=prefer"), ["disable"]);
  t.deepEqual(modesOf("postgres://localhost/impact?ssl=true"), ["require"]);
  t.deepEqual(modesOf("postgres:///impact?host=/tmp&sslmode=require"), ["disable"]);
});

test("several hosts are tried in their order, and one that accepts no writes is passed over", (t) => {
  const { servers, mustAcceptWrites } = parseDatabaseUrl(
    "postgres://user:pass%20word@db1:5432,db2:5433/impact?sslmode=disable&application_name=a%20b",
  );
  t.deepEqual(
    servers.map(({ name, url }) => [name, url]),
    [
      [
        "db1:5432",
        "postgres://user:pass%20word@db1:5432/impact?sslmode=disable&application_name=a+b",
      ],
      [
        "db2:5433",
        "postgres://user:pass%20word@db2:5433/impact?sslmode=disable&application_name=a+b",
      ],
    ],
  );
  t.true(mustAcceptWrites);
  t.false(parseDatabaseUrl("postgres://db1,db2/impact?target_session_attrs=any").mustAcceptWrites);
  t.false(parseDatabaseUrl("postgres://db1/impact").mustAcceptWrites);
  t.true(parseDatabaseUrl("postgres://db1/impact?target_session_attrs=primary").mustAcceptWrites);
});

const rejects = test.macro({
  exec: (t, url: string, message: RegExp) => {
    t.throws(() => parseDatabaseUrl(url), { instanceOf: DatabaseUrlError, message });
  },
  title: (_, url) => `${String(url)} is rejected`,
});

test(rejects, "mysql://db/impact", /must be a URL like postgres/u);
test(rejects, "postgres://db:port/impact", /must be a URL like postgres/u);
test(rejects, "postgres://db1,,db2/impact", /must be a URL like postgres/u);
test(rejects, "postgres://db/impact?sslmode=full", /unknown sslmode; supported: disable, require/u);
test(rejects, "postgres://db/impact?sslmode=prefer", /plain text; set require/u);
test(rejects, "postgres://db1,localhost/impact?sslmode=allow", /plain text; set require/u);
test(rejects, "postgres://db/impact?sslmode=verify-ca", /without sslrootcert/u);
test(rejects, "postgres://db/impact?sslcrl=crl.pem", /sslcrl, which is not supported/u);
test(rejects, "postgres://db/impact?sslcert=cert.pem", /only one of sslcert and sslkey/u);
test(rejects, "postgres://db/impact?target_session_attrs=standby", /supported.*read-write/u);
test(rejects, "postgres:///impact?host=db1,db2", /several hosts in a parameter/u);

test("variables complete a URL and do not replace its own parameters", (t) => {
  const url = "postgres://db/impact?sslmode=require";
  t.is(completeDatabaseUrl(url, { sslmode: "disable", sslrootcert: undefined }), url);
  t.is(
    completeDatabaseUrl("postgres://db/impact", { sslmode: "verify-full", sslrootcert: "/a b" }),
    "postgres://db/impact?sslmode=verify-full&sslrootcert=%2Fa+b",
  );
});

test("a database is named without its password", (t) => {
  const url = "postgres://user:a@b:c@db1:5432,db2/impact?sslmode=require";
  t.is(nameDatabase(url), "db1:5432,db2/impact");
  t.is(withoutPassword(url), "postgres://user@db1:5432,db2/impact?sslmode=require");
  t.is(withoutPassword("postgres://user@db/impact"), "postgres://user@db/impact");
  t.is(nameDatabase("postgres:///impact?host=/tmp"), "/tmp/impact");
});
