import { importsOfVersions } from './copy-in-rows.versions.fixture.ts'
import { SLOW_OWNERS } from './copy-rows.fixture.ts'

importsOfVersions(SLOW_OWNERS)
