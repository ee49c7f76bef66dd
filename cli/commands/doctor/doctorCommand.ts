import { resolve } from "node:path";
import type { Command } from "commander";
import type { CliContext } from "../../context.ts";
import {
  describeUnknownSettings,
  findUnknownSettings,
} from "../../../config/findUnknownSettings.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { printList } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { check, ok, warning, wrong } from "./check.ts";
import type { Finding } from "./check.ts";
import { checkApi } from "./checkApi.ts";
import { checkDatabase } from "./checkDatabase.ts";
import { checkDeployment } from "./checkDeployment.ts";
import { checkDonations } from "./checkDonations.ts";
import { checkFeed } from "./checkFeed.ts";
import { checkKeys } from "./checkKeys.ts";
import { checkRoutes } from "./checkRoutes.ts";
import { checkStripe } from "./checkStripe.ts";
import { checkWatchedSubscriptions } from "./checkWatchedSubscriptions.ts";
import { checkTemporal } from "./checkTemporal.ts";
import { checkWebhooks } from "./checkWebhooks.ts";

/** The release that the service is tested with. */
const NODE_MAJOR = 24;

const checkNode = (): Promise<Finding> =>
  check("Node", () => {
    const { node } = process.versions;
    return Promise.resolve(
      Number.parseInt(node, 10) >= NODE_MAJOR
        ? ok(node)
        : wrong(
            `${node} is too old; the service needs Node ${NODE_MAJOR}. Use \`npm run -s impact\`, which brings its own`,
          ),
    );
  });

const checkSettings = ({ connections }: CliContext): Promise<Finding> =>
  check("settings", async () => {
    const { DATABASE_URL, TEMPORAL_ADDRESS, DATA_DIR } = connections.config();
    const given = Object.entries({ DATABASE_URL, TEMPORAL_ADDRESS }).flatMap(([name, value]) =>
      value === undefined ? [] : [name],
    );
    const started = await connections.running();
    const folder = resolve(DATA_DIR);
    const other = started === null ? await connections.otherRunning() : null;
    const source = other
      ? `\`npm start\` is running with ${folder} (process ${other.pid}), but DATABASE_URL is another database's, so it is not checked`
      : started
        ? `\`npm start\` is running with ${folder} (process ${started.pid})`
        : `no \`npm start\` is running with ${folder}`;
    return ok([source, ...given.map((name) => `${name} is set`)].join("; "));
  });

const checkSettingNames = (): Promise<Finding> =>
  check("names in .env", () => {
    const unknown = findUnknownSettings();
    return Promise.resolve(
      unknown.length === 0 ? ok("no unknown ones") : warning(describeUnknownSettings(unknown)),
    );
  });

const diagnose = async (context: CliContext, { json }: JsonOption): Promise<void> => {
  const { io } = context;
  const settings = await checkSettings(context);
  const findings = [
    await checkNode(),
    settings,
    await checkSettingNames(),
    // The other checks need valid settings.
    ...(settings.status === "ok"
      ? (
          await Promise.all([
            checkDatabase(context),
            checkTemporal(context),
            checkRoutes(context),
            checkDeployment(context),
            checkStripe(context),
            checkWatchedSubscriptions(context),
            checkDonations(context),
            checkFeed(context),
            checkWebhooks(context),
            checkKeys(context),
            checkApi(context),
          ])
        ).flat()
      : []),
  ];
  printList({ io, json }, findings, (finding) => finding, {
    check: (finding) => finding.check,
    status: (finding) => finding.status,
    detail: (finding) => finding.detail,
  });
  const problems = findings.filter(({ status }) => status === "wrong").length;
  if (problems > 0) {
    throw new CommandError(
      EXIT.failed,
      `${problems} of ${findings.length} checks found a problem.`,
    );
  }
};

export const defineDoctorCommand = (command: Command, context: CliContext): void => {
  command.action((options: JsonOption) => diagnose(context, options));
};
