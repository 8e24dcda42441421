import { copiesAtOnce } from './concurrent-copies.fixture.ts'

copiesAtOnce(['schema-pg', 'rowscope-pg'])
