// A consumer of sarama, franz-go or kafka-go. Its only argument is a JSON object, see libraries/__init__.py. It says
// "started" before it joins; a line of input closes it, after which it says "closed". When its input ends, it ends
// without a word to the broker.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

type options struct {
	Library     string
	Bootstrap   string
	Group       string
	Topics      []string
	InstanceID  string `json:"instance_id"`
	ClientID    string `json:"client_id"`
	Assignor    string
	Protocol    string
	SessionMs   int `json:"session_ms"`
	HeartbeatMs int `json:"heartbeat_ms"`
	RebalanceMs int `json:"rebalance_ms"`
}

func ms(count int) time.Duration { return time.Duration(count) * time.Millisecond }

func main() {
	var one options
	check(json.Unmarshal([]byte(os.Args[1]), &one))
	start := map[string]func(options) func(){"sarama": ofSarama, "franz-go": ofFranzGo, "kafka-go": ofKafkaGo}[one.Library]
	fmt.Println("started")
	stop := start(one)
	if !bufio.NewScanner(os.Stdin).Scan() {
		os.Exit(143)
	}
	stop()
	fmt.Println("closed")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type handler struct{}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (handler) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for range claim.Messages() {
	}
	return nil
}

func ofSarama(one options) func() {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	if one.ClientID != "" {
		config.ClientID = one.ClientID
	}
	config.Consumer.Group.InstanceId = one.InstanceID
	config.Consumer.Group.Session.Timeout = ms(one.SessionMs)
	config.Consumer.Group.Heartbeat.Interval = ms(one.HeartbeatMs)
	config.Consumer.Group.Rebalance.Timeout = ms(one.RebalanceMs)
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{map[string]func() sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange, "roundrobin": sarama.NewBalanceStrategyRoundRobin,
		"sticky": sarama.NewBalanceStrategySticky, "cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
	}[one.Assignor]()}
	group, err := sarama.NewConsumerGroup([]string{one.Bootstrap}, one.Group, config)
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, one.Topics, handler{}); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		check(group.Close())
	}
}

func ofFranzGo(one options) func() {
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	settings := []kgo.Opt{
		kgo.SeedBrokers(one.Bootstrap), kgo.ConsumerGroup(one.Group), kgo.ConsumeTopics(one.Topics...),
		kgo.SessionTimeout(ms(one.SessionMs)), kgo.HeartbeatInterval(ms(one.HeartbeatMs)),
		kgo.RebalanceTimeout(ms(one.RebalanceMs)),
	}
	if one.ClientID != "" {
		settings = append(settings, kgo.ClientID(one.ClientID))
	}
	if one.InstanceID != "" {
		settings = append(settings, kgo.InstanceID(one.InstanceID))
	}
	ctx, cancel := context.WithCancel(context.Background())
	if one.Protocol == "consumer" {
		ctx = context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true)
		settings = append(settings, kgo.WithContext(ctx))
	}
	if balancer, known := balancers[one.Assignor]; known {
		settings = append(settings, kgo.Balancers(balancer))
	}
	client, err := kgo.NewClient(settings...)
	check(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			fetches := client.PollFetches(ctx)
			if fetches.IsClientClosed() || ctx.Err() != nil {
				return
			}
			fetches.EachError(func(_ string, _ int32, err error) { fmt.Fprintln(os.Stderr, err) })
		}
	}()
	return func() {
		client.Close()
		<-done
		cancel()
	}
}

func ofKafkaGo(one options) func() {
	balancers := map[string]kafka.GroupBalancer{"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}}
	config := kafka.ReaderConfig{
		Brokers: []string{one.Bootstrap}, GroupID: one.Group, GroupTopics: one.Topics,
		GroupBalancers: []kafka.GroupBalancer{balancers[one.Assignor]}, SessionTimeout: ms(one.SessionMs),
		HeartbeatInterval: ms(one.HeartbeatMs), RebalanceTimeout: ms(one.RebalanceMs),
	}
	if one.ClientID != "" {
		config.Dialer = &kafka.Dialer{ClientID: one.ClientID, Timeout: 10 * time.Second}
	}
	reader := kafka.NewReader(config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if _, err := reader.FetchMessage(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		check(reader.Close())
	}
}
