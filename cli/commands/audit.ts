import { z } from "zod";
import { listAuditEntries } from "../../modules/accounts/auditEntries.sql.ts";
import type { AuditEntry } from "../../modules/accounts/auditEntries.sql.ts";
import { AUDIT_ACTIONS } from "../../modules/accounts/audit.rules.ts";
import { ACCOUNT_OPTION, readAccountFilter } from "../accountOptions.ts";
import { parseCount, parseLimit, parseOperator, parserOf } from "../arguments.ts";
import type { Define } from "../command.ts";
import { snakeCased } from "../output/print.ts";
import { requireTimeRange, SINCE, UNTIL } from "../timeRange.ts";

const GROUPS = new Set(AUDIT_ACTIONS.map((action) => action.split(".")[0] ?? action));

const formatDetails = (details: AuditEntry["details"]): string =>
  Object.entries(details)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");

const textOf = ({ id, createdAt, action, actor, operator, details, ...entry }: AuditEntry) =>
  snakeCased({
    id,
    createdAt,
    action,
    by: operator ?? `(${actor})`,
    ...entry,
    details: formatDetails(details),
  });

const LIST_HELP = `
An action is a command's name with a dot, such as key.issue, or a group such as key.
Entries cannot be changed or deleted.`;

const parseAction = parserOf(
  z
    .string()
    .refine((given) => GROUPS.has(given) || AUDIT_ACTIONS.some((action) => action === given)),
  `one of ${AUDIT_ACTIONS.join(", ")}, or a group: ${[...GROUPS].join(", ")}`,
);

export const addAuditCommands: Define = (audit, { connections, printList, say }) => {
  audit
    .command("list")
    .description("List audit entries, newest first")
    .option(...ACCOUNT_OPTION)
    .option("--action <action>", "action, or group of actions", parseAction)
    .option("--operator <name>", "operator", parseOperator)
    .option(...SINCE)
    .option(...UNTIL)
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .option("--before <entry>", "list entries older than this one", parseCount)
    .addHelpText("after", LIST_HELP)
    .action(async ({ org, limit, ...filter }) => {
      requireTimeRange(filter);
      const db = await connections.database();
      const accountId = await readAccountFilter(db, org);
      const found = await listAuditEntries(db, { ...filter, accountId }, limit + 1);
      const entries = found.slice(0, limit);
      printList(entries.map(snakeCased), entries.map(textOf));
      if (found.length > limit) {
        say(`For older entries, use --before ${entries.at(-1)?.id ?? ""}.`);
      }
    });
};
