import { Option } from "@commander-js/extra-typings";
import { plantingReport, sitesOf } from "../../modules/planting/fact.rules.ts";
import type { PlantingReport } from "../../modules/planting/fact.rules.ts";
import { listFacts } from "../../modules/planting/facts.sql.ts";
import type { StoredFact } from "../../modules/planting/facts.sql.ts";
import { ORDER_STAGES } from "../../modules/planting/order.rules.ts";
import { findPlantingOrder, listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import type { PlantingOrder } from "../../modules/planting/orders.sql.ts";
import { recordPlantingFacts } from "../../modules/planting/recordPlantingFacts.ts";
import { withdrawPlantingFact } from "../../modules/planting/withdrawPlantingFact.ts";
import { invalidRequest, requireFound } from "../../runtime/errors.rules.ts";
import { listIssues, messageOfIssue } from "../../runtime/describeIssues.rules.ts";
import { plantingOrderWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { ACCOUNT_OPTION, readAccountFilter } from "../accountOptions.ts";
import { onlyGiven, parseCount, parseLimit, parseReason } from "../arguments.ts";
import { OPERATOR, addChange } from "../command.ts";
import type { Cli, Define } from "../command.ts";
import { only, snakeCased } from "../output/print.ts";
import type { Fields } from "../output/print.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { readText } from "../input/openInput.ts";

const ORDER_COLUMNS =
  "id public_id evidence_public_id buyer mode partner trees stage created_at".split(" ");

const presentOrder = (deployment: string, order: PlantingOrder) => ({
  id: order.id,
  public_id: order.publicId,
  evidence_order_id: order.shownId,
  evidence_public_id: order.shownPublicId,
  org_id: order.accountId,
  mode: order.mode,
  partner: order.partner,
  partner_reference: order.partnerReference,
  buyer: order.buyerName,
  trees: order.treeCount,
  refunded_trees: order.refundedCount,
  timeline: order.timeline,
  stage: order.stage,
  created_at: order.createdAt,
  planted_at: order.plantedAt,
  verified_at: order.verifiedAt,
  workflow_id: plantingOrderWorkflowId(deployment, order.id),
});

const presentFact = ({ id, digest: _digest, ...fact }: StoredFact): Fields => ({
  fact: id,
  ...snakeCased(fact),
});

const FACT_COLUMNS = "fact stage state source occurred_at received_at withdrawn_by reason".split(
  " ",
);

/** What a fact shows: its sites, photos and videos. */
const proofsOf = ({ id, content }: StoredFact) => {
  const photos = content.stage === "planted_and_verified" ? content.photos : [];
  const media = content.stage === "planted" ? content.media : [];
  return [
    ...sitesOf(content).map(({ name, region, country, reference }) => ({
      shows: "site",
      proof: `${name}, ${region}, ${country} (${reference})`,
    })),
    ...photos.map((proof) => ({ shows: "photo", proof })),
    ...media.map(({ type, url }) => ({ shows: type, proof: url })),
  ].map(({ shows, proof }) => ({ fact: String(id), shows, proof }));
};

const showOrder = async ({ connections, printDetails }: Cli, given: string): Promise<void> => {
  const db = await connections.database();
  const order = requireFound(
    await findPlantingOrder(db, /^\d{1,9}$/u.test(given) ? Number(given) : given),
    `Planting order ${given} not found. See impact evidence order list.`,
  );
  const facts = await listFacts(db, order.id);
  const presented = presentOrder(await connections.deploymentName(), order);
  const { id, ...fields } = presented;
  const shown = facts.map(presentFact);
  printDetails(
    { ...presented, facts: shown },
    { order_id: id, ...fields, facts: only(shown, FACT_COLUMNS), proofs: facts.flatMap(proofsOf) },
  );
};

const addOrderCommand: Define = (evidence, cli) => {
  evidence
    .command("order")
    .description("Inspect planting orders")
    .command("list")
    .alias("show")
    .description("List planting orders, newest first, or show one with its facts and their proofs")
    .argument("[order]", "number or public id of an order")
    .option(...ACCOUNT_OPTION)
    .addOption(new Option("--stage <stage>", "stage of the orders").choices(ORDER_STAGES))
    .option("--contradicted", "only orders with contradictions")
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action(async (given, { org, stage, contradicted, limit }) => {
      if (given !== undefined) {
        return showOrder(cli, given);
      }
      const db = await cli.connections.database();
      const accountId = (await readAccountFilter(db, org)) ?? undefined;
      const found = await listPlantingOrders(db, {
        ...onlyGiven({ accountId, stage, contradicted }),
        limit: limit + 1,
      });
      const deployment = await cli.connections.deploymentName();
      const rows = found.map((order) => presentOrder(deployment, order));
      cli.printList(rows, only(rows, ORDER_COLUMNS), limit);
    });
};

const parseReport = (json: string): PlantingReport => {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw invalidRequest(`The file is not valid JSON: ${describeError(error)}.`, { cause: error });
  }
  const result = plantingReport.safeParse(value, { error: messageOfIssue });
  if (!result.success) {
    const lines = listIssues(result.error.issues, "field").map((line) => `\n  ${line}`);
    throw invalidRequest(`Nothing was recorded, because the file is invalid:${lines.join("")}`);
  }
  return result.data;
};

const RECORD_HELP = `
The file contains {"order": "<public id>", "facts": [{"stage": …, "occurred_at": …, …}, …]},
as docs/evidence.md describes. It is validated first, and recorded completely or not at
all. Facts that are already recorded change nothing, and withdrawn ones count again.
Contradictions are stored for you to inspect and change nothing either.`;

const WITHDRAW_HELP = `
A withdrawn fact stays stored with its proof, the reason and the operator, but no longer
counts. Facts that need it wait for another one. Facts that contradicted it are decided
again, the latest report first: to replace a fact without a gap, record the right one
before you withdraw the wrong one. Evidence and the summary change with the next request.
To undo it, record the fact again; \`evidence order show --json\` prints its content.`;

export const addEvidenceCommands: Define = (evidence, cli) => {
  addOrderCommand(evidence, cli);

  addChange(evidence, "record", "Record facts of a planting order from a JSON file")
    .argument("<file>", "path of the file, or - for standard input")
    .addHelpText("after", RECORD_HELP)
    .action(async (file, operator) => {
      const { order, facts } = parseReport(await readText(cli.io, file));
      const deps = await cli.openChange(operator);
      const recorded = await recordPlantingFacts(deps, order, facts, "operator");
      cli.printList(recorded, only(recorded, ["stage", "outcome", "reason"]));
      if (recorded.some(({ outcome }) => outcome === "contradiction")) {
        throw new CommandError(
          EXIT.failed,
          "Some facts contradict recorded ones. See `impact evidence order show`.",
        );
      }
    });

  evidence
    .command("withdraw")
    .description("Withdraw a reported fact that is wrong")
    .argument("<fact>", "number of the fact, as impact evidence order show prints it", parseCount)
    .requiredOption("--reason <text>", "why the fact is wrong", parseReason)
    .option(...OPERATOR)
    .addHelpText("after", WITHDRAW_HELP)
    .action(async (factId, options) => {
      const deps = await cli.openChange(options);
      const { changes, ...order } = await withdrawPlantingFact(deps, factId, options.reason);
      cli.printDetails({ ...snakeCased(order), changes });
      if (changes.length === 0) {
        cli.say(`Fact ${factId} was already withdrawn.`);
      }
    });
};
