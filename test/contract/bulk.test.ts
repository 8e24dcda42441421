import { bulk } from './bulk.ts'
import { coverPart } from './coverage.ts'

coverPart(bulk)
