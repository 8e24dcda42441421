import { copiesAtOnce } from './copies-at-once.fixture.ts'

copiesAtOnce(['database-pg'])
