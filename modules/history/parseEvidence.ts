import { hash } from "node:crypto";
import { z } from "zod";
import { describeIssues, messageOfIssue, mustBe } from "../../runtime/describeIssues.rules.ts";
import { text } from "../records/fields.rules.ts";
import { findFactsProblem, sortByStage } from "./importedEvidence.rules.ts";
import type { ImportedEvidence, ImportedTreeOrder } from "./importedEvidence.rules.ts";
import { plantingFact, reference as referenceText } from "../planting/fact.rules.ts";
import type { PlantingFact } from "../planting/fact.rules.ts";
import { FOREST_TYPES } from "../planting/impactFactors.rules.ts";
import { importedReference } from "../planting/order.rules.ts";
import { importedId } from "../records/recordIds.rules.ts";

/*
 * Lines of evidence: the contract's response to GET /evidence/tree/{id}. What the contract does not name is rejected,
 * because a misspelt field would be missing from the proof.
 */

const id = () => z.int().min(0);
const link = () => z.url({ protocol: /^https?$/u, error: "must be an http:// or https:// URL" });
const optionalLink = () =>
  z
    .union([z.literal(""), link()], { error: "must be an http:// or https:// URL, or empty" })
    .default("");
const words = () => text(200).default("");
const decimal = z
  .string()
  .regex(/^-?\d+(?:\.\d+)?$/u)
  .transform(Number);
const coordinate = () => z.union([z.number(), decimal], { error: mustBe("a number") });

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
      planting_site: z.strictObject({
        id: id(),
        name: text(200),
        subsite_name: words(),
        organization_name: text(200),
        latitude: coordinate(),
        longitude: coordinate(),
        main_image: optionalLink(),
      }),
      crew: z
        .strictObject({
          leader: words(),
          style: words(),
          total_members: z.int().min(0).default(0),
          women_members: z.int().min(0).default(0),
        })
        .prefault({}),
    }),
  ),
});

const planted = z.strictObject({
  partner: words(),
  date_planted: z.string().optional(),
  media: z
    .array(
      z.strictObject({
        id: z
          .union([z.string(), z.int()], { error: mustBe("a string or an integer") })
          .transform(String),
        type: z.string(),
        url: link(),
        thumbnail_url: link().optional(),
        latitude: coordinate(),
        longitude: coordinate(),
      }),
    )
    .default([]),
});

const verified = z.strictObject({
  partner: words(),
  planting_site_name: text(200),
  subsite_name: words(),
  organization_name: text(200),
  assessor_name: text(200),
  verifier: text(200),
  date_verified: z.string().optional(),
  session_total_planted: z.int().min(1),
  species: z.array(z.string()),
  image_url: link(),
  allocation_id: id(),
  field_update_id: id(),
  planting_session_id: id(),
  latitude: coordinate(),
  longitude: coordinate(),
  photos: z.array(link()).default([]),
});

const milestone = <Event extends string, Evidence extends z.ZodType>(
  event: Event,
  evidence: Evidence,
) =>
  z.strictObject({
    step: z.int().optional(),
    event: z.literal(event),
    title: z.string().optional(),
    status: z.enum(["pending", "completed"]),
    date: z.string().optional(),
    timestamp: time().optional(),
    description: z.string().optional(),
    evidence: evidence.optional(),
  });

const evidenceLine = z.strictObject({
  kind: z.literal("evidence"),
  tree_id: importedId(),
  record_id: z.string().optional(),
  impact_type: z.string().optional(),
  impact_provider: words(),
  status: z.string().optional(),
  simulated: z
    .literal(false, { error: "is true: nothing was planted for simulated evidence" })
    .optional(),
  refunded: z.boolean().optional(),
  refunded_count: z.int().optional(),
  imported_from: z.string().optional(),
  /** In the evidence of stores. */
  created_at: z.string().optional(),
  evidence_count: z.int().optional(),
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
  country: text(200).min(1).default("unknown"),
  /** Empty in the evidence of stores until the site is known. */
  region: text(200)
    .transform((given) => given || undefined)
    .optional(),
  forest_type: z.enum(FOREST_TYPES).default("terrestrial"),
});
type Line = z.output<typeof evidenceLine>;

/** A fact as it is reported, before its own schema has checked it. */
type Reported = Readonly<Record<string, unknown>> | null;

/**
 * Returns the reference of a site of which the evidence has only the names, as that of verified sessions. Names that are too
 * long for a reference are replaced by their hash.
 */
const siteReferenceOf = (source: string, names: string): string => {
  const written = `${source}/${names}`;
  return referenceText().safeParse(written).success
    ? written
    : `${source}/${hash("sha256", names, "hex")}`;
};

type Site = Omit<z.output<typeof allocated>["allocations"][number]["planting_site"], "id">;

const siteOf = (site: Site, reference: string, { country, region, forest_type }: Line) => ({
  ...site,
  reference,
  country,
  region: region ?? site.name,
  forest_type,
});

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
  return {
    ...proof,
    allocation_reference: importedReference(source, allocation_id),
    field_update_reference: importedReference(source, field_update_id),
    planting_session_reference: importedReference(source, planting_session_id),
    planting_site: siteOf(
      { name, subsite_name, organization_name, latitude, longitude, main_image },
      siteReferenceOf(source, `${name}/${subsite_name}`),
      line,
    ),
  };
};

const factOf = (reached: Line["timeline"][number], line: Line, source: string): Reported => {
  const { event, timestamp: occurred_at } = reached;
  const { provider_meta: ids } = line;
  const reference = (of: number) => importedReference(source, of);
  switch (event) {
    case "registered":
      return null;
    case "funds_distributed":
      return {
        stage: event,
        occurred_at,
        partner_reference: String(
          reached.evidence?.order_public_id ?? ids.public_id ?? ids.order_id ?? "",
        ),
      };
    case "allocated":
      return {
        stage: event,
        occurred_at,
        allocations: (reached.evidence?.allocations ?? []).map(
          ({
            allocation_id: allocation,
            date_allocated,
            crew,
            planting_site: { id: siteId, ...site },
          }) => ({
            date_allocated,
            crew,
            reference: reference(allocation),
            planting_site: siteOf(site, reference(siteId), line),
          }),
        ),
      };
    case "planted":
      return {
        stage: event,
        occurred_at,
        ...(ids.planting_session_id !== undefined && {
          planting_session_reference: reference(ids.planting_session_id),
        }),
        ...(ids.field_update_id !== undefined && {
          field_update_reference: reference(ids.field_update_id),
        }),
        media: (reached.evidence?.media ?? []).map(
          ({ id: medium, type, url, thumbnail_url = url, latitude, longitude }) => ({
            reference: medium,
            type,
            url,
            thumbnail_url,
            latitude,
            longitude,
          }),
        ),
      };
    case "planted_and_verified": {
      if (!reached.evidence) {
        return null;
      }
      return { stage: event, occurred_at, ...verificationOf(reached.evidence, line, source) };
    }
  }
};

const orderOf = (line: Line): ImportedTreeOrder | string => {
  const proof = line.timeline.find((entry) => entry.event === "funds_distributed")?.evidence;
  const orderId = proof?.order_id ?? line.provider_meta.order_id;
  const publicId = proof?.order_public_id ?? line.provider_meta.public_id;
  if (orderId === undefined || publicId === undefined) {
    return "order_id and order_public_id: required once funds are distributed, in provider_meta or its evidence";
  }
  return {
    orderId,
    publicId,
    treeOrderId: proof?.tree_order_id ?? null,
    treeOrderPublicId: proof?.tree_order_public_id ?? null,
    treeAmount: proof?.tree_amount ?? null,
    buyerName: proof?.buyer_name ?? "",
  };
};

/** Returns the completed milestones as facts, or what is wrong with them. */
const factsOf = (line: Line, source: string): readonly PlantingFact[] | string => {
  const facts: PlantingFact[] = [];
  for (const reached of line.timeline) {
    if (reached.status === "pending" || reached.event === "registered") {
      continue;
    }
    if (reached.timestamp === undefined || reached.evidence === undefined) {
      return `${reached.event}: a completed milestone needs its timestamp and its evidence`;
    }
    const parsed = plantingFact.safeParse(factOf(reached, line, source), {
      error: messageOfIssue,
    });
    if (!parsed.success) {
      return `${reached.event}: ${describeIssues(parsed.error.issues, "field")}`;
    }
    facts.push(parsed.data);
  }
  return sortByStage(facts);
};

/**
 * Parses a line of evidence, or returns all that is wrong with it.
 * @param options.source the name of the system that has shown the evidence
 */
export const parseEvidence = (
  fields: Readonly<Record<string, unknown>>,
  { source, now }: { readonly source: string | null; readonly now: Date },
): { readonly evidence: ImportedEvidence } | { readonly problem: string } => {
  if (source === null) {
    return { problem: "evidence needs --source, the name of the system that has shown it" };
  }
  const parsed = evidenceLine.safeParse(fields, { error: messageOfIssue });
  if (!parsed.success) {
    return { problem: describeIssues(parsed.error.issues, "field") };
  }
  const line = parsed.data;
  const isOrdered = line.timeline.some(
    ({ event, status }) => event !== "registered" && status === "completed",
  );
  const order = isOrdered ? orderOf(line) : null;
  if (typeof order === "string") {
    return { problem: order };
  }
  const facts = factsOf(line, source);
  if (typeof facts === "string") {
    return { problem: facts };
  }
  const isVerifiedOnly = line.timeline.some(({ event }) => event === "planted_and_verified");
  const shape = isVerifiedOnly ? "sessions" : "allocations";
  const problem = findFactsProblem(shape, facts, now);
  if (problem !== null) {
    return { problem };
  }
  const names = line.timeline.flatMap(({ evidence }) =>
    typeof evidence === "object" && evidence !== null && "partner" in evidence
      ? [String(evidence.partner)]
      : [],
  );
  const partnerName = [line.impact_provider, ...names].find((name) => name !== "") ?? source;
  return { evidence: { treeId: line.tree_id, source, partnerName, shape, order, facts } };
};
