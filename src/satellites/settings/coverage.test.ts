import { coverPart } from '../../../test/contract/coverage.ts'
import { part } from './coverage.fixture.ts'

coverPart(part)
