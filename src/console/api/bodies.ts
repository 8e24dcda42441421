/** Constraints of the bodies of operations: loaded with the first form. */
import type { OperationName, Rules } from './contract.ts'
import inputs from './inputs.json'
import { hostRulesOf } from './rules.ts'

export const bodyRulesOf = (name: OperationName): Rules =>
  (inputs as Readonly<Record<string, Rules>>)[name] ?? hostRulesOf(name)?.body ?? {}
