import { route } from '@react-router/dev/routes'

export default [route('*', 'every-path.js')]
