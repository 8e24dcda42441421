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

/** Only whole values are encrypted. */
const NESTED_SECRET = 'must have writeOnly: true at its top: a value is a secret as a whole'

/** As `toSchema`. In a JSON Schema, `writeOnly: true` at the top marks secrets. @throws E_INVALID_REQUEST at `path` */
export function toMarkedSchema(
  given: unknown,
  path: string,
  message: string,
): { schema: z.ZodType; isSecret: boolean } {
  if (isSchema(given)) return { schema: given, isSecret: false }
  const { data } = z.record(z.string(), z.unknown()).safeParse(given)
  const { writeOnly = false, ...jsonSchema } = data ?? {}
  if (typeof writeOnly !== 'boolean') throw invalid([{ path: `${path}.writeOnly`, message: 'must be true or false' }])
  if (!writeOnly && hasWriteOnly(jsonSchema)) throw invalid([{ path, message: NESTED_SECRET }])
  return { schema: toSchema(data && jsonSchema, path, message), isSecret: writeOnly }
}

/** Whether a part of a JSON Schema has `writeOnly`, other than `false`. An object is the schema of a property with this name. */
const hasWriteOnly = (schema: unknown): boolean =>
  isObject(schema) &&
  (('writeOnly' in schema && schema.writeOnly !== false && !isObject(schema.writeOnly)) ||
    Object.values(schema).some(hasWriteOnly))

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
