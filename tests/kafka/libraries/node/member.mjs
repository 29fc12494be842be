// A consumer of kafkajs or platformatic: node member.mjs FOLDER OPTIONS. The folder has node_modules; OPTIONS is a JSON
// object, see libraries/__init__.py. It says "started" before it joins; a line of input closes it, after which it says
// "closed". When its input ends, it ends without a word to the broker.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const [, , folder, text] = process.argv
const load = createRequire(folder + '/')
const options = JSON.parse(text)
const named = options.client_id ? { clientId: options.client_id } : {}
const timeouts = {
  sessionTimeout: options.session_ms, heartbeatInterval: options.heartbeat_ms, rebalanceTimeout: options.rebalance_ms
}

async function kafkajs () {
  const { Kafka, logLevel } = load('kafkajs')
  const kafka = new Kafka({ brokers: [options.bootstrap], logLevel: logLevel.NOTHING, ...named })
  const consumer = kafka.consumer({ groupId: options.group, ...timeouts })
  await consumer.connect()
  console.log('started')
  for (const topic of options.topics) await consumer.subscribe({ topic })
  await consumer.run({ eachMessage: async () => {} })
  return async () => consumer.disconnect()
}

async function platformatic () {
  const { Consumer } = await import(load.resolve('@platformatic/kafka'))
  const isConsumer = options.protocol === 'consumer'
  const consumer = new Consumer({
    clientId: 'member', ...named, groupId: options.group, bootstrapBrokers: [options.bootstrap],
    ...(options.instance_id ? { groupInstanceId: options.instance_id } : {}),
    ...(isConsumer ? { groupProtocol: 'consumer', groupRemoteAssignor: options.assignor } : timeouts)
  })
  console.log('started')
  const stream = await consumer.consume({ topics: options.topics, mode: 'latest' })
  stream.on('data', () => {})
  stream.on('error', error => console.error(error.message))
  return async () => {
    await stream.close()
    await consumer.close()
  }
}

process.on('unhandledRejection', error => console.error(error))
const begun = { kafkajs, platformatic }[options.library]()
const lines = createInterface({ input: process.stdin })
lines.once('line', async () => {
  const close = await begun
  await close()
  console.log('closed')
  process.exit(0)
})
lines.once('close', () => setTimeout(() => process.exit(143)))
