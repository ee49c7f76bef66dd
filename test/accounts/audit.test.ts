import { z } from "zod";
import { listAuditEntries } from "../../modules/accounts/auditEntries.sql.ts";
import { sql } from "../../db/sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { recordAction } from "../../modules/accounts/recordAction.ts";
import { readJson, impactOf } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { skipIds } from "../support/skipIds.ts";

const test = testWithDatabase();

test.before((t) => skipIds(t.context.owner, "audit_entry"));

const entries = z.array(
  z.strictObject({
    id: z.int(),
    created_at: z.iso.datetime(),
    action: z.string(),
    actor: z.string(),
    operator: z.string().nullable(),
    account_id: z.uuid().nullable(),
    subject: z.string().nullable(),
    reason: z.string().nullable(),
    details: z.record(z.string(), z.unknown()),
  }),
);

test("an entry of the audit log cannot be changed or deleted, not even by the owner", async (t) => {
  const { db, owner } = t.context;
  const { id } = await createTestOrganization(db);
  const changes = [
    sql.typeAlias("void")`UPDATE audit_entry SET operator = NULL WHERE account_id = ${id}`,
    sql.typeAlias("void")`DELETE FROM audit_entry WHERE account_id = ${id}`,
    sql.typeAlias("void")`TRUNCATE audit_entry`,
  ];
  const read = () => listAuditEntries(db, { accountId: id }, 100);
  const before = await read();
  t.is(before.length, 3);

  for (const change of changes) {
    const message = /audit entries cannot be changed or deleted/u;
    await t.throwsAsync(owner.query(change), { message });
  }

  t.deepEqual(await read(), before);
});

test("a new organization's entries name the operator, the reason and its two keys", async (t) => {
  const impact = impactOf(t);
  const by = { operator: "Ada", reason: "ticket 12" };
  const create = ["org", "create", "--name", "Audited", "--as", by.operator];
  const { id, api_key_prod: key } = z
    .looseObject({ id: z.string(), api_key_prod: z.string() })
    .parse(await impact.json(...create, "--reason", by.reason));

  const listed = await impact("audit", "list", "--org", id, "--json");

  const found = entries.length(3).parse(readJson(listed));
  for (const [index, action] of ["key.issue", "key.issue", "org.create"].entries()) {
    t.like(found[index], { action, ...by });
  }
  const settings = { mode: "test", name: "initial", scope: "write", expires_at: null };
  t.deepEqual(found[0]?.details, settings);
  t.false(listed.stdout.includes(key));
});

test("revoking a key twice is recorded once", async (t) => {
  const impact = impactOf(t);
  const { id } = await createTestOrganization(t.context.db);
  const issued = await impact.json("key", "issue", "--org", id, "--mode", "test");
  const key = z.looseObject({ id: z.string() }).parse(issued).id;
  await impact.ok("key", "revoke", key, "--as", "Ada");
  await impact.ok("key", "revoke", key, "--as", "Eve");

  const revoked = await listAuditEntries(t.context.db, { accountId: id, action: "key.revoke" }, 10);
  t.is(revoked.length, 1);
  t.like(revoked[0], { operator: "Ada", subject: key });
});

test("audit list selects by account, action, group, operator and time, page by page", async (t) => {
  const { db } = t.context;
  const { id } = await createTestOrganization(db);
  const days = [1, 2, 3, 4].map((day) => new Date(`2020-02-0${day}T12:00:00Z`));
  for (const [index, day] of days.entries()) {
    const actor = { kind: "operator", name: `Operator ${index % 2}`, reason: null } as const;
    await recordAction(db, actor, day, {
      action: index < 2 ? "usage.hold" : "usage.resume",
      accountId: id,
      details: { index },
    });
  }
  await recordAction(db, SERVICE, new Date(), { action: "key.revoke", accountId: id });
  const select = async (...options: readonly string[]) => {
    const run = await impactOf(t)("audit", "list", "--org", id, "--json", ...options);
    return entries.parse(readJson(run));
  };
  const indexes = async (...options: readonly string[]) =>
    (await select("--action", "usage", ...options)).map(({ details }) => details["index"]);

  t.deepEqual(await indexes(), [3, 2, 1, 0]);
  t.deepEqual(await indexes("--operator", "Operator 1"), [3, 1]);
  t.deepEqual(await indexes("--since", "2020-02-02", "--until", "2020-02-04"), [2, 1]);
  const ofAction = (await select("--action", "usage.hold")).map(({ details }) => details["index"]);
  t.deepEqual(ofAction, [1, 0]);
  const [revoked] = await select("--action", "key.revoke");
  t.like(revoked, { actor: "service", operator: null });
  const firstPage = await select("--action", "usage", "--limit", "2");
  t.deepEqual(await indexes("--before", String(firstPage[1]?.id)), [1, 0]);
});

test("audit list shows who did what in a table, and how to list older entries", async (t) => {
  const impact = impactOf(t);
  const { id } = await createTestOrganization(t.context.db);
  for (const day of ["7", "8"]) {
    await impact("org", "update", id, "--billing-day", day, "--as", "Ada");
  }
  const list = (...options: readonly string[]) =>
    impact("audit", "list", "--org", id, "--action", "org.update", "--limit", ...options);
  const newest = await list("1", "--json");
  const [entry] = entries.length(1).parse(readJson(newest));
  t.is(newest.stderr, `For older entries, use --before ${entry?.id}.\n`);
  const both = await list("2");
  t.regex(both.stdout, /org\.update\s+Ada\s.*billing_day=7/u);
  t.true(both.stdout.includes(`\n${entry?.id} `), "the entry as --before takes it");
  t.is(both.stderr, "");
});
