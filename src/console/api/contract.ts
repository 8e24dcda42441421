/** Types of operations by name, and the constraints of their queries. */
import type { Operations } from './operations.ts'
import queries from './queries.json'

export type OperationName = keyof Operations
export type Params<Name extends OperationName> = Operations[Name]['params']
export type Query<Name extends OperationName> = Operations[Name]['query']
export type Body<Name extends OperationName> = Operations[Name]['body']
export type Result<Name extends OperationName> = Operations[Name]['result']

/** `params`, `query` and `body`. A part without a required member may be absent. */
export type Input<Name extends OperationName> = Operations[Name]['input']

/** Constraints of one field, from the JSON Schema of the operation. */
export interface FieldRules {
  readonly type?: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object'
  readonly required?: boolean
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly enum?: readonly string[]
  readonly format?: string
  readonly default?: unknown
}

export type Rules = Readonly<Record<string, FieldRules>>

/** Constraints of the query of an operation. */
export const queryRulesOf = (name: OperationName): Rules => (queries as Readonly<Record<string, Rules>>)[name] ?? {}
