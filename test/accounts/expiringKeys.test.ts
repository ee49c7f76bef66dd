import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { issueKey } from "../../modules/accounts/issueKey.ts";
import { revokeKey } from "../../modules/accounts/revokeKey.ts";
import { diagnose } from "../cli/diagnose.ts";
import { impactOf } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

const test = testWithDatabase();
const DAY_MS = 24 * 60 * 60 * 1000;

test("doctor warns of keys that expire within two weeks, and of no others", async (t) => {
  const { db } = t.context;
  const deps = { db, clock: systemClock, actor: SERVICE };
  const impact = impactOf(t);
  const findKeys = async () => (await diagnose(impact)).find("API keys");
  const { id: accountId } = await createTestOrganization(db, { name: "Forest" });
  const issue = async (days: number): Promise<string> => {
    const expiresAt = new Date(systemClock.now().getTime() + days * DAY_MS);
    const settings = { name: "server", scope: "write", expiresAt } as const;
    const account = { id: accountId, type: "organization" } as const;
    return (await issueKey(deps, account, "live", settings)).id;
  };
  await issue(15);
  await revokeKey(deps, await issue(3));
  t.like(await findKeys(), { status: "ok", detail: "none expires within 14 days" });

  await issue(13);
  const sooner = await issue(2);
  const { status, detail = "" } = (await findKeys()) ?? {};
  t.is(status, "warning");
  t.true(
    detail.startsWith(`2 valid keys expire within 14 days, ${sooner} (live, Forest) on `),
    detail,
  );
});
