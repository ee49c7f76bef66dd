import { z } from "zod";
import { integerUpTo } from "../http/listPages.ts";

const MAXIMUM_PAGE = 999_999_999;

export const page = () =>
  integerUpTo(MAXIMUM_PAGE, { default: 1 })
    .default(1)
    .meta({ description: "Page number, from 1." });

export const pageSize = (maximum: number) =>
  integerUpTo(maximum, { default: 20 })
    .default(20)
    .meta({
      description: `Number of items on a page. More than ${maximum} is read as ${maximum}.`,
    });

/** A number of items or pages in a response. */
export const total = (description: string) =>
  z
    .int()
    .min(0)
    .meta({ description, examples: [1] });
