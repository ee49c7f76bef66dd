import { listExpiringKeys } from "../../../db/accounts/apiKeys.ts";
import { counted } from "../../../domain/counted.ts";
import { DAY_MS } from "../../../domain/durations.ts";
import type { CliContext } from "../../context.ts";
import { formatTime } from "../../output/formatTable.ts";
import { checkWithDatabase, ok, warning } from "./check.ts";
import type { Finding } from "./check.ts";

/** Long enough to give a client another key. */
const NOTICE_DAYS = 14;
/** More are counted and not named. */
const NAMED_KEYS = 3;

/** Warns of valid API keys that expire soon: afterwards their clients receive the response for an unknown key. */
export const checkKeys = (context: CliContext): Promise<Finding> =>
  checkWithDatabase(context, "API keys", async () => {
    const now = context.clock.now();
    const until = new Date(now.getTime() + NOTICE_DAYS * DAY_MS);
    const keys = await listExpiringKeys(await context.connections.database(), now, until);
    if (keys.length === 0) {
      return ok(`none expires within ${NOTICE_DAYS} days`);
    }
    const named = keys
      .slice(0, NAMED_KEYS)
      .map(
        ({ id, mode, accountName, expiresAt }) =>
          `${id} (${mode}, ${accountName}) on ${formatTime(expiresAt)}`,
      );
    const others = keys.length - named.length;
    return warning(
      `${counted(keys.length, "valid key expires", "valid keys expire")} within ${NOTICE_DAYS} days: ` +
        [...named, ...(others > 0 ? [`${others} more`] : [])].join("; ") +
        ". Issue others with `impact key issue`",
    );
  });
