/** Schemas that a host gives: Zod schemas in code, JSON Schemas in configuration files. */
import { z } from 'zod'
import { invalid } from '../base/errors.ts'

/** Of any package of Zod. Unlike `z.ZodType`, it costs the compiler nothing to compare with. */
export type ZodSchema = z.core.$ZodType

/** A Zod schema, or a JSON Schema. */
export type HostSchema = ZodSchema | { readonly type?: string; readonly [keyword: string]: unknown }

export const isSchema = (value: unknown): value is z.ZodType =>
  typeof value === 'object' && value !== null && 'safeParse' in value

/** @throws E_INVALID_REQUEST at `path` */
export function toSchema(
  given: unknown,
  path: string,
  message = 'must be a Zod schema, or a JSON Schema with supported keywords',
): z.ZodType {
  if (isSchema(given)) return given
  try {
    return z.fromJSONSchema(z.record(z.string(), z.unknown()).parse(given))
  } catch {
    throw invalid([{ path, message }])
  }
}
