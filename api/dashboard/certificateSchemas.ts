import { z } from "zod";
import { recordId } from "../../domain/fields.ts";

export const certificateParameters = {
  id: recordId().meta({
    description: "The id of a tree or bottle registration.",
    examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"],
  }),
};

export const certificateUrlResponse = z
  .strictObject({
    certificate_url: z.url().meta({
      description: "Stable until the operator revokes it; the next request returns another one.",
    }),
  })
  .meta({ id: "CertificateUrl" });
