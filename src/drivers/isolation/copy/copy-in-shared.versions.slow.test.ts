import { importsOfVersions } from './copy-in-shared.versions.fixture.ts'
import { SLOW_OWNERS } from './rows.fixture.ts'

importsOfVersions(SLOW_OWNERS)
