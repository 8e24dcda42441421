import { coverPart } from './coverage.ts'
import { transfers } from './transfers.ts'

coverPart(transfers)
