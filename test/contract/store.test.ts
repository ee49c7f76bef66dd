import { STORE_CHECKS } from "./checks/allChecks.ts";
import { createService } from "./client.ts";
import { runCheck } from "./check.ts";
import { testWithContractServer } from "./startContractServer.ts";

const { test, target } = testWithContractServer();

// Serial, because checks compare totals of the account before and after a request.
for (const check of STORE_CHECKS) {
  test.serial(`${check.section}: ${check.name}`, async (t) => {
    t.deepEqual(await runCheck(createService(target()), check), { result: "ok" });
  });
}
