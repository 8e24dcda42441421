import { copiesAtOnce } from './concurrent-copies.fixture.ts'

copiesAtOnce(['database-pg'])
