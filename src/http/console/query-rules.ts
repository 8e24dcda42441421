/**
 * Rules of the query of an operation, for the check of addresses in the console. No rule is stricter than the schema of the operation: a
 * value that the service would accept is never dropped. A member whose JSON Schema is stricter has no constraints.
 */
import { z } from 'zod'
import type { AnyOperation } from '../../kernel/api/operation.ts'
import {
  fieldRules,
  isNull,
  type OperationSchemas,
  resolved,
  rulesOf,
  type Schema,
  variantsOf,
} from './operation-schemas.ts'

/** Flags with which a pattern matches more texts than without them. JSON Schema has no flags. */
const WIDENING_FLAGS = /[ims]/
/** Schemas that pass the input on to another schema. */
const WRAPPERS = ['optional', 'default', 'prefault', 'nullable', 'nonoptional', 'readonly']

/** @param described the schemas of the operation, from the OpenAPI document */
export function queryRules(
  { query }: Pick<AnyOperation, 'query'>,
  described: OperationSchemas,
  schemas: Schema,
): Record<string, Schema> {
  const rules = fieldRules(described.query, schemas)
  if (!query) return rules
  const { shape, catchall } = query.def
  const own = Object.entries(rules).map(([name, rule]) => {
    const member = shape[name]
    if (!member || isLoose(member)) return [name, looseRule(rule)]
    const variants = variantsOfText(member, described.query.properties[name], schemas)
    if (variants.length === 1) return [name, rule]
    return [name, { ...(rule.required ? { required: true } : {}), anyOf: variants.map((one) => rulesOf(one, schemas)) }]
  })
  const isOpen = catchall !== undefined && catchall.def.type !== 'never'
  if (!isOpen) return Object.fromEntries(own)
  const { 'x-prefix': prefix = '', ...other } = z.toJSONSchema(catchall as z.ZodType, { io: 'input' }) as Schema
  return Object.fromEntries([...own, [prefix, { ...rulesOf(other, schemas), isPrefix: true }]])
}

/** A text without constraints, also where the schema converts the text to a number. */
function looseRule({ type, default: preset, required }: Schema): Schema {
  return {
    type: type === 'integer' || type === 'number' ? 'string' : type,
    ...(preset === undefined ? {} : { default: preset }),
    ...(required ? { required } : {}),
  }
}

/** Variants of a member that a text can match. Code may pass others, such as a date. */
function variantsOfText(member: z.core.$ZodType, schema: Schema, schemas: Schema): Schema[] {
  const variants = flatVariants(schema, schemas)
  const types = typesOf(member)
  return types.length === variants.length ? variants.filter((_, index) => types[index] !== 'date') : variants
}

function flatVariants(schema: Schema, schemas: Schema): Schema[] {
  const variants = variantsOf(resolved(schema, schemas)).filter((one) => !isNull(one))
  return variants.length === 1 ? variants : variants.flatMap((one) => flatVariants(one, schemas))
}

function typesOf(schema: z.core.$ZodType): string[] {
  const def = schema._zod.def as Schema
  if (WRAPPERS.includes(def.type)) return typesOf(def.innerType)
  if (def.type === 'pipe') return typesOf(def.in)
  if (def.type === 'union') return def.options.flatMap(typesOf)
  return def.type === 'null' ? [] : [def.type]
}

/** Whether the schema accepts texts that its JSON Schema rejects, because it changes them before the check, or ignores the check. */
function isLoose(schema: z.core.$ZodType): boolean {
  const def = schema._zod.def as Schema
  if (WRAPPERS.includes(def.type)) return isLoose(def.innerType)
  if (def.type === 'union') return def.options.some(isLoose)
  if (def.type === 'pipe' && def.in._zod.def.type === 'transform') return !isCoercedNumber(def.out)
  if (def.type === 'pipe') return isLoose(def.in)
  if (def.type === 'catch' || def.type === 'lazy' || (def.type === 'date' && def.coerce)) return true
  const checks: Schema[] = [def, ...(def.checks ?? []).map((check: z.core.$ZodCheck) => check._zod.def)]
  return checks.some(({ check, pattern }) => check === 'overwrite' || WIDENING_FLAGS.test(pattern?.flags ?? ''))
}

/** Such a schema receives a text, which it converts itself. */
const isCoercedNumber = (schema: z.core.$ZodType): boolean => {
  const { type, coerce } = schema._zod.def as Schema
  return type === 'number' && coerce === true
}
