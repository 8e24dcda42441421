/** Constraints of the bodies of operations: loaded with the first form. */
import { hostRulesOf, type OperationName, type Rules } from './contract.ts'
import inputs from './inputs.json'

export const bodyRulesOf = (name: OperationName): Rules =>
  (inputs as Readonly<Record<string, Rules>>)[name] ?? hostRulesOf(name)?.body ?? {}
