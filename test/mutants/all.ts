/** All mutants, in the order of the list. */
import { CONNECTION_MUTANTS } from './connection-mutants.ts'
import { CONTEXT_MUTANTS } from './context-mutants.ts'
import { DRIVER_MUTANTS } from './driver-mutants.ts'
import { IMPORT_MUTANTS } from './import-mutants.ts'
import type { Mutant } from './mutant.ts'
import { OWN_LOGIN_MUTANTS } from './own-login-mutants.ts'
import { READER_MUTANTS } from './reader-mutants.ts'
import { SCOPE_MUTANTS } from './scope-mutants.ts'
import { SQL_MUTANTS } from './sql-mutants.ts'
import { TRANSFER_MUTANTS } from './transfer-mutants.ts'

export const MUTANTS: readonly Mutant[] = [
  ...SCOPE_MUTANTS,
  ...CONNECTION_MUTANTS,
  ...CONTEXT_MUTANTS,
  ...DRIVER_MUTANTS,
  ...OWN_LOGIN_MUTANTS,
  ...SQL_MUTANTS,
  ...TRANSFER_MUTANTS,
  ...READER_MUTANTS,
  ...IMPORT_MUTANTS,
]
