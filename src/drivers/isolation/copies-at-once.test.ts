import { copiesAtOnce } from './copies-at-once.fixture.ts'

copiesAtOnce(['schema-pg', 'rowscope-pg'])
