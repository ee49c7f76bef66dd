import { hash } from "node:crypto";
import { z } from "zod";
import { describeIssues, messageOfIssue, mustBe } from "../../runtime/describeIssues.rules.ts";
import { text } from "../records/fields.rules.ts";
import { requireAcceptable } from "./importedEvidence.rules.ts";
import { reject } from "./importedRecords.rules.ts";
import type { ImportedEvidence, ImportedTreeOrder } from "./importedEvidence.rules.ts";
import { NO_CREW, plantingFact, UNKNOWN_COUNTRY } from "../planting/fact.rules.ts";
import type { PlantingFact } from "../planting/fact.rules.ts";
import { FOREST_TYPES } from "../planting/impactFactors.rules.ts";
import { importedReference, PLANTING_STAGES } from "../planting/order.rules.ts";
import { importedId } from "../records/recordIds.rules.ts";

/*
 * Lines of evidence: the contract's response to GET /evidence/tree/{id}. What the contract does not name is rejected,
 * because a misspelt field would be missing from the proof. What a fact takes over as it is, the schema of facts checks.
 */

const id = () => z.int().min(0);
const words = () => text(200).default("");
const ignored = () => z.unknown().optional();
const decimal = z
  .string()
  .regex(/^-?\d+(?:\.\d+)?$/u)
  .transform(Number);
const coordinate = () => z.union([z.number(), decimal], { error: mustBe("a number") });
const place = { latitude: coordinate(), longitude: coordinate() };

/** A timestamp, or a date, which means its start in UTC. */
const time = () =>
  z
    .string()
    .transform((written) =>
      /^\d{4}-\d{2}-\d{2}$/u.test(written) ? `${written}T00:00:00Z` : written,
    )
    .pipe(z.iso.datetime({ offset: true, error: "must be a timestamp or a date" }));

const distributed = z.strictObject({
  partner: words(),
  order_id: id().optional(),
  order_public_id: text(200).optional(),
  tree_order_id: id().optional(),
  tree_order_public_id: text(200).optional(),
  tree_amount: z.int().min(1).optional(),
  buyer_name: words(),
});

const allocated = z.strictObject({
  partner: words(),
  allocations: z.array(
    z.strictObject({
      allocation_id: id(),
      date_allocated: time(),
      planting_site: z.looseObject({ ...place, id: id(), name: z.string() }),
      crew: z.looseObject({}).default({}),
    }),
  ),
});

const planted = z.strictObject({
  partner: words(),
  date_planted: ignored(),
  media: z
    .array(
      z.looseObject({
        ...place,
        id: z
          .union([z.string(), z.int()], { error: mustBe("a string or an integer") })
          .transform(String),
        url: z.string(),
      }),
    )
    .default([]),
});

const verified = z.looseObject({
  ...place,
  partner: words(),
  date_verified: ignored(),
  planting_site_name: z.string(),
  subsite_name: words(),
  organization_name: z.string(),
  image_url: z.string(),
  allocation_id: id(),
  field_update_id: id(),
  planting_session_id: id(),
  photos: z.unknown().default([]),
});

const milestone = <Event extends string, Evidence extends z.ZodType>(
  event: Event,
  evidence: Evidence,
) =>
  z.strictObject({
    step: ignored(),
    event: z.literal(event),
    title: ignored(),
    status: z.enum(["pending", "completed"]),
    date: ignored(),
    timestamp: time().optional(),
    description: ignored(),
    evidence: evidence.optional(),
  });

export const evidenceLine = z.strictObject({
  kind: z.literal("evidence"),
  tree_id: importedId(),
  record_id: ignored(),
  impact_type: ignored(),
  impact_provider: words(),
  status: ignored(),
  simulated: z
    .literal(false, { error: "is true: nothing was planted for simulated evidence" })
    .optional(),
  refunded: ignored(),
  refunded_count: ignored(),
  imported_from: ignored(),
  /** In the evidence of stores. */
  created_at: ignored(),
  evidence_count: ignored(),
  provider_meta: z
    .strictObject({
      order_id: id().optional(),
      public_id: text(200).optional(),
      allocation_id: id().optional(),
      field_update_id: id().optional(),
      planting_session_id: id().optional(),
    })
    .prefault({}),
  timeline: z.array(
    z.discriminatedUnion("event", [
      milestone("registered", z.unknown()),
      milestone("funds_distributed", distributed),
      milestone("allocated", allocated),
      milestone("planted", planted),
      milestone("planted_and_verified", verified),
    ]),
  ),
  /** Where the trees are, which the contract's evidence does not say. */
  country: text(200).min(1).default(UNKNOWN_COUNTRY),
  /** Empty in the evidence of stores until the site is known. */
  region: words(),
  forest_type: z.enum(FOREST_TYPES).default("terrestrial"),
});
type Line = z.output<typeof evidenceLine>;

type Completed = Exclude<Line["timeline"][number], { readonly event: "registered" }>;

const siteOf = (
  site: { readonly name: string },
  reference: string,
  { country, region, forest_type }: Line,
) => ({ ...site, reference, country, region: region || site.name, forest_type });

/** Returns what was verified, without the stage and its time. */
const verificationOf = (evidence: z.output<typeof verified>, line: Line, source: string) => {
  const {
    partner: _partner,
    date_verified: _date,
    planting_site_name: name,
    subsite_name,
    organization_name,
    allocation_id,
    field_update_id,
    planting_session_id,
    ...proof
  } = evidence;
  const { latitude, longitude, image_url: main_image } = proof;
  const site = { name, subsite_name, organization_name, latitude, longitude, main_image };
  // The evidence has no id of the site.
  const siteReference = `${source}/${hash("sha256", JSON.stringify([name, subsite_name]), "hex")}`;
  return {
    ...proof,
    allocation_reference: importedReference(source, allocation_id),
    field_update_reference: importedReference(source, field_update_id),
    planting_session_reference: importedReference(source, planting_session_id),
    planting_site: siteOf(site, siteReference, line),
  };
};

/** Returns what a milestone proves, without the stage and its time. The schema of facts has not checked it yet. */
const proofOf = (reached: Completed, line: Line, source: string) => {
  const { provider_meta: ids } = line;
  const reference = (of: number) => importedReference(source, of);
  switch (reached.event) {
    case "funds_distributed": {
      const order = reached.evidence?.order_public_id ?? ids.public_id ?? ids.order_id ?? "";
      return { partner_reference: String(order) };
    }
    case "allocated":
      return {
        allocations: reached.evidence?.allocations.map(
          ({
            allocation_id: allocation,
            crew,
            planting_site: { id: siteId, ...site },
            ...dates
          }) => ({
            ...dates,
            crew: { ...NO_CREW, ...crew },
            reference: reference(allocation),
            planting_site: siteOf(site, reference(siteId), line),
          }),
        ),
      };
    case "planted":
      return {
        ...(ids.planting_session_id !== undefined && {
          planting_session_reference: reference(ids.planting_session_id),
        }),
        ...(ids.field_update_id !== undefined && {
          field_update_reference: reference(ids.field_update_id),
        }),
        media: reached.evidence?.media.map(({ id: medium, ...rest }) => ({
          thumbnail_url: rest.url,
          ...rest,
          reference: medium,
        })),
      };
    case "planted_and_verified":
      return reached.evidence && verificationOf(reached.evidence, line, source);
  }
};

const orderOf = (line: Line): ImportedTreeOrder => {
  const proof = line.timeline.find((entry) => entry.event === "funds_distributed")?.evidence;
  const { order_id: orderId = line.provider_meta.order_id } = proof ?? {};
  const { order_public_id: publicId = line.provider_meta.public_id } = proof ?? {};
  return orderId === undefined || publicId === undefined
    ? reject(
        "order_id and order_public_id: required once funds are distributed, in provider_meta or its evidence",
      )
    : {
        orderId,
        publicId,
        treeOrderId: proof?.tree_order_id ?? null,
        treeOrderPublicId: proof?.tree_order_public_id ?? null,
        treeAmount: proof?.tree_amount ?? null,
        buyerName: proof?.buyer_name ?? "",
      };
};

const factOf = (reached: Completed, line: Line, source: string): PlantingFact => {
  const { event: stage, timestamp: occurred_at, evidence } = reached;
  if (occurred_at === undefined || evidence === undefined) {
    return reject(`${stage}: a completed milestone needs its timestamp and its evidence`);
  }
  const fact = { ...proofOf(reached, line, source), stage, occurred_at };
  const parsed = plantingFact.safeParse(fact, { error: messageOfIssue });
  return parsed.success
    ? parsed.data
    : reject(`${stage}: ${describeIssues(parsed.error.issues, "field")}`);
};

/**
 * Returns the evidence of a line.
 * @throws DomainError request_invalid, which rejects the line
 */
export const evidenceOf = (
  line: Line,
  { source: given, now }: { readonly source: string | null; readonly now: Date },
): ImportedEvidence => {
  const source =
    given ?? reject("evidence needs --source, the name of the system that has shown it");
  const completed = line.timeline
    .filter(({ status }) => status === "completed")
    .filter((entry) => entry.event !== "registered");
  const order = completed.length > 0 ? orderOf(line) : null;
  const unsorted = completed.map((reached) => factOf(reached, line, source));
  const facts = PLANTING_STAGES.flatMap((stage) => unsorted.filter((fact) => fact.stage === stage));
  const isVerifiedOnly = line.timeline.some(({ event }) => event === "planted_and_verified");
  const shape = isVerifiedOnly ? "sessions" : "allocations";
  requireAcceptable(shape, facts, now);
  const names = line.timeline.flatMap(({ evidence }) =>
    typeof evidence === "object" && evidence !== null && "partner" in evidence
      ? [String(evidence.partner)]
      : [],
  );
  const partnerName = [line.impact_provider, ...names].find((name) => name !== "") ?? source;
  return { treeId: line.tree_id, source, partnerName, shape, order, facts };
};
