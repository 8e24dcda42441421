/** Types of operations by name, and of the constraints of their fields. */
import type { HostOperations } from './host.ts'
import type { Operations as OwnOperations } from './operations.ts'

interface Operations extends OwnOperations, HostOperations {}

export type OperationName = keyof Operations
export type Params<Name extends OperationName> = Operations[Name]['params']
export type Query<Name extends OperationName> = Operations[Name]['query']
export type Body<Name extends OperationName> = Operations[Name]['body']
export type Result<Name extends OperationName> = Operations[Name]['result']

/** `params`, `query` and `body`. A part without a required member may be absent. */
export type Input<Name extends OperationName> = Operations[Name]['input']

/** Constraints of one field, from the JSON Schema of the operation. */
export interface FieldRules {
  /** `json`: any value, entered as JSON. */
  readonly type?: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object' | 'json'
  readonly required?: boolean
  readonly nullable?: boolean
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly enum?: readonly string[]
  readonly format?: string
  readonly default?: unknown
  /** Of a query: a value needs to match one of them. */
  readonly anyOf?: readonly FieldRules[]
  /** Of a query: the rules of each member whose name begins with this name, and is longer. */
  readonly isPrefix?: boolean
  /** Of operations of hosts. */
  readonly description?: string
}

export type Rules = Readonly<Record<string, FieldRules>>
