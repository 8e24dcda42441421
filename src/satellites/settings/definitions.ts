/** Definitions of settings: a schema by name, and whether values are secrets. Values are JSON. */
import { z } from 'zod'
import { invalid } from '../../kernel/base/errors.ts'
import { parsed, toJson } from '../../kernel/base/validate.ts'
import { type HostSchema, isSchema, toMarkedSchema, type ZodSchema } from '../../kernel/declarations/host-schema.ts'

const FORMS = 'must be a Zod schema, secret(schema), or a JSON Schema with supported keywords'
/** An error of the schema could contain a part of the value. */
const INVALID_SECRET = 'does not match the definition of the secret'
const MAX_BYTES = 64 * 1024

export const SettingName = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/,
    'must have letters, digits, ".", "_" and "-"; at most 100 characters; starting with a letter or digit',
  )
  .meta({ description: 'Name of a setting', example: 'mail.from' })

/** Definition of a secret. It is no schema, so that a later `.optional()` cannot remove the encryption. */
export interface Secret<Schema extends ZodSchema = ZodSchema> {
  readonly secret: Schema
}

/**
 * Declares a setting as a secret: its value is encrypted, and is not part of responses, logs, audit entries and events.
 *
 * @example settings({ define: { 'mail.password': secret(z.string()) } })
 */
export const secret = <Schema extends ZodSchema>(schema: Schema): Secret<Schema> => ({ secret: schema })

/** A Zod schema, `secret(schema)`, or for configuration files a JSON Schema, in which `writeOnly: true` marks a secret. */
export type SettingDefinition = HostSchema | Secret
export type Definitions = Readonly<Record<string, SettingDefinition>>

type SchemaOf<One> = One extends Secret<infer Schema> ? Schema : One extends ZodSchema ? One : z.ZodUnknown
type OutputOf<Schema extends ZodSchema> =
  undefined extends z.input<Schema> ? z.output<Schema> : z.output<Schema> | undefined

/** Type of a value to set. */
export type SettingInput<One> = Exclude<z.input<SchemaOf<One>>, undefined>
/** Type of a value that is read; with `undefined` if its schema has no default. */
export type SettingValue<One> = OutputOf<SchemaOf<One>>

/** A setting as the service uses it. */
export interface Defined {
  readonly name: string
  readonly isSecret: boolean
  readonly schema: z.ZodType
}

/** @throws E_INVALID_REQUEST */
export function definedSettings(define: Definitions): ReadonlyMap<string, Defined> {
  const names = Object.keys(define).toSorted()
  for (const name of names) parsed(SettingName, name, `settings.define.${name}`)
  return new Map(names.map((name) => [name, { name, ...schemaOf(name, define[name]) }]))
}

function schemaOf(name: string, given: SettingDefinition | undefined): Omit<Defined, 'name'> {
  if (typeof given === 'object' && 'secret' in given && isSchema(given.secret)) {
    return { isSecret: true, schema: given.secret }
  }
  return toMarkedSchema(given, `settings.define.${name}`, FORMS)
}

/** The JSON text of a valid value. @throws E_INVALID_REQUEST */
export function toText({ schema, isSecret }: Defined, value: unknown, where = 'value'): string {
  const text = toJson(value, where)
  if (text === undefined) throw invalid([{ path: where, message: 'must be a JSON value' }])
  if (Buffer.byteLength(text) > MAX_BYTES) throw invalid([{ path: where, message: 'must be at most 64 KiB of JSON' }])
  const plain: unknown = JSON.parse(text)
  if (!isSecret) parsed(schema, plain, where)
  else if (!schema.safeParse(plain).success) throw invalid([{ path: where, message: INVALID_SECRET }])
  return text
}

/** The value without a stored one: that of the plan, which was validated at the start, otherwise the default of the schema. */
export const fallbackOf = ({ name, schema }: Defined, ofPlan: Readonly<Record<string, unknown>>): unknown =>
  schema.safeParse(Object.hasOwn(ofPlan, name) ? ofPlan[name] : undefined).data
